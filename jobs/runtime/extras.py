"""The optional packages, Evenkeel's extras: which are missing is found before anything is read or started."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from jobs.runtime.errors import PlatformError

EXTRAS = {
    "spark": {"pyspark": "pyspark"},
    "quality": {"great_expectations": "great-expectations"},
    "report": {"jinja2": "jinja2"},
    "kafka": {"confluent_kafka": "confluent-kafka"},
    "reading": {"deltalake": "deltalake"},
}
"""By extra of setup.cfg the modules that it is needed for, each with its package."""


def check_extras(what: str, extras: Iterable[str]) -> None:
    """Refuse to begin without the packages of these extras.

    Args:
        what: needs them, for the message.

    Raises:
        PlatformError: names every missing package, and the command that installs them.
    """
    missing = {package: extra for extra in extras for module, package in EXTRAS[extra].items() if find_spec(module) is None}
    if missing:
        packages, names = " and ".join(missing), " and ".join(dict.fromkeys(missing.values()))
        raise PlatformError(
            f"{what} needs the package{'s' * (len(missing) > 1)} {packages}, Evenkeel's extra{'s' * (len(missing) > 1)} {names}; "
            f"install {'them' if len(missing) > 1 else 'it'}: {sys.executable} -m pip install {' '.join(missing)}"
        )
