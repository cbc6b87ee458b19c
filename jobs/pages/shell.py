"""The shell of every page: one file that loads nothing, in one style.

A policy in its head forbids that it could load anything: styles and the one script are inline and named by their hash. So markup in a
group's name could not run, even if it got through the escaping.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from jobs.pages.figures import EN_DASH, cut

if TYPE_CHECKING:
    from importlib.abc import Traversable

MOST_BYTES = 8_000_000
"""Of a page: beyond it, browsers take seconds to open one, and mail does not carry it."""

_SHARED = "jobs.pages"


def page_environment(package: str, script: str) -> Environment:
    """Return the templates of a package together with the shared ones; a template is compiled once.

    Args:
        package: the name of the package with the folder ``templates``. Of two templates of one name its own counts.
        script: the file among its templates that runs after the shared script.
    """

    def source(name: str) -> str | None:
        found = (folder.joinpath(name) for folder in _folders(package))
        return next((path.read_text(encoding="utf-8") for path in found if path.is_file()), None)

    style, whole_script = source("page.css") or "", script_of(package, script)
    environment = Environment(
        loader=FunctionLoader(source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False
    )
    environment.globals |= {
        "style": Markup(style),
        "script": Markup(whole_script),
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(whole_script)}; base-uri 'none'; form-action 'none'",
        "dash": EN_DASH,
        "cut": cut,
    }
    return environment


def script_of(package: str, script: str) -> str:
    """Return the script of a package's pages: the shared one, and its own after it."""
    shared, own = (files(name).joinpath("templates").joinpath(file) for name, file in ((_SHARED, "page.js"), (package, script)))
    return f"{shared.read_text(encoding='utf-8')}\n{own.read_text(encoding='utf-8')}"


def template_contents(package: str) -> Iterator[bytes]:
    """Yield the files that make the pages of a package, the shared ones included, in the order of their names."""
    paths = [path for folder in _folders(package) for path in folder.iterdir()]
    yield from (path.read_bytes() for path in sorted(paths, key=lambda path: path.name))


def as_script_data(value: Any) -> str:
    """Return JSON that no browser takes for markup inside of a script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _folders(package: str) -> tuple[Traversable, ...]:
    return tuple(files(name).joinpath("templates") for name in (package, _SHARED))


def _hash(text: str) -> str:
    """Return the policy's name for an inline block: it covers every character between the tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
