"""Who may import, touch and name what: every source file is parsed, none is run.

A rule is a function from one parsed file to its violations. Each comes with a line that breaks it, so that a rule that
sees nothing fails as well.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobs.options import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGES = ("assignors", "schemas", "jobs")
STDLIB = sys.stdlib_module_names

ALLOWED_IMPORTS = {
    "assignors": {"assignors", "numpy", "scipy"},
    "schemas": {"schemas", "pydantic", "pyspark.sql.types"},
    "jobs": {
        "jobs",
        "schemas",
        "assignors",
        "pyspark",
        "py4j",
        "numpy",
        "pandas",
        "pyarrow",
        "pydantic",
        "yaml",
        "jinja2",
        "markupsafe",
        "confluent_kafka",
        "deltalake",
        "great_expectations",
    },
}
# Slow or heavy to import, or a boundary that has one file: the only modules that may.
ONLY_IN = {
    "great_expectations": {"jobs.gates"},
    "confluent_kafka": {"jobs.brokers.cluster", "jobs.brokers.groups", "jobs.brokers.records"},
    "py4j": {"jobs.runtime.jvm"},
    "jinja2": {"jobs.pages.shell", "jobs.report.page", "jobs.what_if.migration_page"},
    "markupsafe": {"jobs.pages.shell", "jobs.report.page", "jobs.what_if.migration_page"},
    "yaml": {"jobs.runtime.yaml_file", "jobs.gates"},
    "deltalake": {"jobs.reading.published"},
    # Columns of what is audited, where a benchmark shows that they pay; an assignor has none.
    "numpy": {
        *("assignors.generation.holdings", "assignors.generation.balance"),
        *("assignors.audit.comparison", "assignors.audit.least_movement", "assignors.audit.movements", "assignors.audit.max_flow"),
        *("jobs.workers.holdings_column", "jobs.decoders.offset_commit_columns"),
    },
    "scipy": {"assignors.audit.max_flow"},
}
ARROW = {"pandas", "pyarrow"}
# A session for the launcher's setup, in a process of its own.
TRAINING = "jobs.runtime.class_training"
SESSIONS = ("jobs.runtime.session", TRAINING)
JVM = {"jobs.runtime.jvm", "jobs.storage.hadoop_files"}
CLOCK = {"jobs.cli"}
EXITS = {"jobs.__main__", "jobs.launcher.start", "jobs.runtime.interruption"}
# A room of ``jobs`` -> the rooms that it may import. What is not here stands above all of these: the command line, settings, gates, and the
# pipeline, which knows of each stage its ``run`` alone. In ``assignors`` that is ``scenario``. docs/architecture.md has this table too.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "launcher": (),
    "runtime": ("launcher",),
    "workers": (),
    "findings": (),
    "decoders": ("runtime",),
    "brokers": ("runtime",),
    "storage": ("runtime", "workers"),
    "collect": ("brokers", "runtime", "launcher"),
    "options": ("collect", "show", "sql", "what_if", "runtime", "launcher"),
    "context": ("options", "storage", "workers", "decoders", "brokers", "runtime"),
    "land": ("context", "storage", "workers", "decoders", "brokers", "runtime"),
    "assign": ("context", "storage", "workers", "runtime"),
    "audit": ("context", "storage", "workers", "findings", "runtime"),
    "pages": (),
    "report": ("pages", "storage", "findings", "backtest", "reading", "runtime", "launcher"),
    "verify": ("storage", "runtime"),
    # The two exceptions among siblings: what goes by age is what audits would find again, and nothing goes from a damaged warehouse.
    "maintain": ("context", "storage", "audit", "verify", "runtime"),
    # Published tables of a local folder without Spark, what is shown of a group, and changes played before they are made.
    "reading": ("runtime",),
    "backtest": ("reading",),
    "what_if": ("context", "pages", "storage", "workers", "backtest", "reading", "runtime"),
    "show": ("pages", "reading", "runtime"),
    "sql": ("pages", "storage", "runtime"),
}
MAY_IMPORT_OF_ASSIGNORS: dict[str, tuple[str, ...]] = {
    "java": ("model",),
    "generation": ("model", "java"),
    "algorithms": ("model", "registry", "generation", "java"),
    "replay": ("assign", "model", "registry", "algorithms", "generation"),
    "audit": ("model", "registry", "generation", "java", "replay"),
}
PIPELINE = "jobs.pipeline"
WORK = "jobs.work"
# Rooms that read tables, and what of them may not all the same: a worker function, which never starts a Spark job.
ACTIONS_IN = {
    *("storage", "context", "land", "assign", "audit", "report", "sql", "verify", "maintain", "what_if"),
    *("gates", "preflight"),
}
ACTIONS = {"collect", "toPandas", "toArrow", "toLocalIterator", "isEmpty", "foreach", "foreachPartition", "show"}
BARE_ACTIONS = {"count", "first", "head", "take", "tail"}  # only without arguments: with one they are functions of other things
NOT_CONNECT = {"sparkContext", "_jvm", "_jdf", "_jsc", "rdd", "cache", "persist", "unpersist"}
UNPICKLERS = {"pickle", "marshal", "shelve", "cloudpickle", "dill", "joblib"}
SAFE_YAML = {"yaml.safe_load", "yaml.parse"}
WORKER_MODULES = ("jobs.land.udfs", "jobs.assign.udfs", "jobs.audit.udfs", "jobs.what_if.udfs", "jobs.workers.holdings_udfs")
# Started before there are packages, by a Python that it may have to refuse, and under its own name alone: without ``jobs`` before it.
LAUNCHER = "jobs.launcher"
OLDEST_TO_BE_REFUSED = (3, 8)


@dataclass(frozen=True)
class Source:
    """One parsed file; ``module`` is its dotted name, a package's without ``__init__``."""

    module: str
    tree: ast.Module
    is_package: bool = False

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.module.split(".")[0]

    @property
    def room(self) -> str:
        """The folder below the package, or the file that lies there."""
        return _room(self.module)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and dotted name of everything imported, inside functions too; ``from a import b`` counts as ``a.b``."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                parts = self.module.split(".")
                base = parts[: len(parts) - node.level + self.is_package] if node.level else []
                start = ".".join([*base, *([node.module] if node.module else [])])
                yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)

    def attributes(self) -> Iterator[ast.Attribute]:
        """Every ``something.name`` in the file."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute))

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call with the text of what is called."""
        return ((node, ast.unparse(node.func)) for node in ast.walk(self.tree) if isinstance(node, ast.Call))


def _parse(path: Path) -> Source:
    parts = path.relative_to(ROOT).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    return Source(".".join(parts[:-1] if is_package else parts), ast.parse(path.read_text("utf-8"), str(path)), is_package)


SOURCES = {source.module: source for package in PACKAGES for source in map(_parse, sorted((ROOT / package).rglob("*.py")))}


def _room(name: str) -> str:
    return ".".join(name.split(".")[1:2])


def _is_within(name: str, allowed: str) -> bool:
    return name == allowed or name.startswith(allowed + ".")


def imports_only_what_its_layer_may(source: Source) -> Iterator[str]:
    for line, name in source.imports():
        if name.split(".")[0] not in STDLIB and not any(_is_within(name, allowed) for allowed in ALLOWED_IMPORTS[source.package]):
            yield f"{source.module}:{line} imports {name}"


def imports_of_another_file(source: Source) -> Iterator[str]:
    for line, name in source.imports():
        if source.module not in ONLY_IN.get(name.split(".")[0], {source.module}):
            yield f"{source.module}:{line} imports {name}, which only {sorted(ONLY_IN[name.split('.')[0]])} may"


def rooms_import_what_lies_below(source: Source) -> Iterator[str]:
    rooms = {"jobs": MAY_IMPORT, "assignors": MAY_IMPORT_OF_ASSIGNORS}.get(source.package, {})
    allowed = rooms.get(source.room)
    if allowed is None:
        return
    for line, name in source.imports():
        if name.startswith(f"{source.package}.") and _room(name) not in (source.room, *allowed):
            yield f"{source.module}:{line} imports {name}"


def the_pipeline_enters_by_the_door(source: Source) -> Iterator[str]:
    for line, name in source.imports():
        is_command, doors = name.startswith("jobs.") and _room(name).replace("_", "-") in COMMANDS, ("run", "save", "options")
        if source.module in (PIPELINE, WORK) and is_command and not name.startswith(tuple(f"jobs.{_room(name)}.{door}" for door in doors)):
            yield f"{source.module}:{line} imports {name}"


def launcher_needs_no_packages(source: Source) -> Iterator[str]:
    relative = {node.lineno for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom) and node.level}
    for line, name in source.imports():
        is_own = line in relative and _is_within(name, LAUNCHER)
        if _is_within(source.module, LAUNCHER) and not is_own and name.split(".")[0] not in STDLIB:
            yield f"{source.module}:{line} imports {name}, which is not there when it starts"


def arrow_meets_the_assignors_in_worker_functions(source: Source) -> Iterator[str]:
    names = {name.split(".")[0] for _, name in source.imports()}
    if source.module not in WORKER_MODULES and "assignors" in names and names & ARROW:
        yield f"{source.module} knows both the assignors and {sorted(names & ARROW)}"


def one_session_builder(source: Source) -> Iterator[str]:
    for node in source.attributes():
        if node.attr == "builder" and source.module not in SESSIONS:
            yield f"{source.module}:{node.lineno} builds a session"


def works_on_spark_connect(source: Source) -> Iterator[str]:
    for node in source.attributes():
        if node.attr in NOT_CONNECT and source.package == "jobs" and source.module not in JVM:
            yield f"{source.module}:{node.lineno} uses .{node.attr}"


def actions_only_in_stages(source: Source) -> Iterator[str]:
    for node, called in source.calls():
        name = called.rpartition(".")[2]
        is_action = name in ACTIONS or (name in BARE_ACTIONS and not node.args and not node.keywords)
        may = (source.room in ACTIONS_IN and source.module not in WORKER_MODULES) or source.module == TRAINING
        if is_action and "." in called and source.package == "jobs" and not may:
            yield f"{source.module}:{node.lineno} runs {called}()"


def asks_no_clock(source: Source) -> Iterator[str]:
    for node, called in source.calls():
        is_clock = called.endswith(("datetime.now", "utcnow", "date.today", ".current_timestamp", ".current_date", "F.now"))
        if (is_clock or called in ("time.time", "time.time_ns")) and source.module not in CLOCK:
            yield f"{source.module}:{node.lineno} asks {called}()"


def leaves_the_exit_to_the_command_line(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Name | ast.Attribute)
            and ast.unparse(node) in ("SystemExit", "sys.exit", "os._exit", "exit")
            and source.module not in EXITS
        ):
            yield f"{source.module}:{node.lineno} ends the process"


def runs_no_stored_code(source: Source) -> Iterator[str]:
    for line, name in source.imports():
        if name.split(".")[0] in UNPICKLERS:
            yield f"{source.module}:{line} imports {name}, which runs what it reads"
    for node, called in source.calls():
        if called in ("eval", "exec") or (called.startswith("yaml.") and called not in SAFE_YAML):
            yield f"{source.module}:{node.lineno} runs what {called}() reads"


def asserts_for_the_type_checker_alone(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assert) and not ast.unparse(node.test).endswith(" is not None"):
            yield f"{source.module}:{node.lineno} checks by an assert, which PYTHONOPTIMIZE takes out"


def documents_what_is_public(source: Source) -> Iterator[str]:
    def undocumented(node: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
        for child in node.body:
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not child.name.startswith("_"):
                if not ast.get_docstring(child):
                    yield f"{source.module}:{child.lineno} {prefix}{child.name} has no docstring"
                if isinstance(child, ast.ClassDef):
                    yield from undocumented(child, f"{child.name}.")

    if not ast.get_docstring(source.tree) and not source.module.endswith(".__main__"):
        yield f"{source.module} has no docstring"
    yield from undocumented(source.tree, "")


BROKEN: list[tuple[Callable[[Source], Iterator[str]], str, str]] = [
    (imports_only_what_its_layer_may, "assignors.a", "import pandas"),
    (imports_only_what_its_layer_may, "assignors.a", "def f():\n    from schemas import tables"),
    (imports_only_what_its_layer_may, "assignors.a", "from .. import schemas"),
    (imports_only_what_its_layer_may, "schemas.a", "from pyspark.sql import functions"),
    (imports_only_what_its_layer_may, "schemas.a", "import jobs.runtime.errors"),
    (imports_only_what_its_layer_may, "jobs.a", "from tests import builders"),
    (imports_only_what_its_layer_may, "jobs.a", "import conf"),
    (imports_of_another_file, "jobs.assign.udfs", "import great_expectations as gx"),
    *[
        (rooms_import_what_lies_below, f"jobs.{room}.a", f"from jobs.{'pipeline' if room == 'verify' else 'verify'} import a")
        for room in MAY_IMPORT
        if room != "maintain"
    ],
    (rooms_import_what_lies_below, "jobs.maintain.a", "from jobs.land import run"),
    *[
        (
            rooms_import_what_lies_below,
            f"assignors.{room}.a",
            "from assignors.scenario import a",
        )
        for room in MAY_IMPORT_OF_ASSIGNORS
    ],
    (the_pipeline_enters_by_the_door, PIPELINE, "from jobs.audit import load_imbalance"),
    (the_pipeline_enters_by_the_door, WORK, "from jobs.what_if.udfs import rehearse"),
    (launcher_needs_no_packages, LAUNCHER, "from jobs import errors"),
    (launcher_needs_no_packages, LAUNCHER, "def f():\n    import yaml"),
    (launcher_needs_no_packages, f"{LAUNCHER}.start", "import yaml"),
    (launcher_needs_no_packages, f"{LAUNCHER}.start", "from ..runtime import errors"),
    (launcher_needs_no_packages, f"{LAUNCHER}.start", "from jobs.launcher.messages import say"),
    (arrow_meets_the_assignors_in_worker_functions, "jobs.a", "import pyarrow\nfrom assignors.model import Member"),
    (one_session_builder, "jobs.a", "SparkSession.builder.getOrCreate()"),
    (works_on_spark_connect, "jobs.a", "spark.sparkContext.setJobGroup('a', 'b')"),
    (works_on_spark_connect, "jobs.a", "frame.cache()"),
    (actions_only_in_stages, "jobs.assign.udfs", "snapshots.count()"),
    (actions_only_in_stages, "jobs.workers.packing", "snapshots.where('a').collect()"),
    (asks_no_clock, "jobs.a", "datetime.datetime.now(UTC)"),
    (asks_no_clock, "jobs.a", "F.current_timestamp()"),
    (asks_no_clock, "assignors.a", "time.time()"),
    (leaves_the_exit_to_the_command_line, "jobs.a", "raise SystemExit(2)"),
    (leaves_the_exit_to_the_command_line, "jobs.a", "sys.exit(2)"),
    (runs_no_stored_code, "jobs.a", "from pickle import loads"),
    (runs_no_stored_code, "schemas.a", "def f(text):\n    return eval(text)"),
    (runs_no_stored_code, "jobs.a", "yaml.load(text, yaml.UnsafeLoader)"),
    (asserts_for_the_type_checker_alone, "jobs.a", "assert a > 0"),
    (documents_what_is_public, "jobs.a", '"""A."""\ndef f(): pass'),
    (documents_what_is_public, "jobs.a", '"""A."""\nclass A:\n    """A."""\n    def f(self): pass'),
    (documents_what_is_public, "jobs.a", "a = 1"),
]
RULES = list(dict.fromkeys(rule for rule, _, _ in BROKEN))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_source_file_keeps_the_rule(rule: Callable[[Source], Iterator[str]]):
    assert [violation for source in SOURCES.values() for violation in rule(source)] == []


@pytest.mark.parametrize(("rule", "module", "text"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_each_rule_finds_its_breaking_line(rule: Callable[[Source], Iterator[str]], module: str, text: str):
    assert len(list(rule(Source(module, ast.parse(text))))) == 1


@pytest.mark.parametrize(("package", "rooms"), [("jobs", MAY_IMPORT), ("assignors", MAY_IMPORT_OF_ASSIGNORS)])
def test_each_room_needs_what_it_may_import(package: str, rooms: dict[str, tuple[str, ...]]):
    imported = {(source.room, _room(name)) for source in SOURCES.values() if source.package == package for _, name in source.imports()}
    assert {(room, name) for room, names in rooms.items() for name in names} - imported == set()


def test_page_on_the_architecture_has_the_table_of_rooms():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)(?:\.py)?` \| .* \| (.*)\|$", page, re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", names)) for room, names in rows} == {room: set(names) for room, names in MAY_IMPORT.items()}


def test_launcher_is_read_by_a_python_that_it_refuses():
    """Else an old Python would end with the traceback of a syntax error, and not with the line that says what to install."""
    paths = sorted((ROOT / "jobs" / "launcher").glob("*.py"))
    assert len(paths) > 1
    for path in paths:
        text = path.read_text("utf-8")
        ast.parse(text, str(path), feature_version=OLDEST_TO_BE_REFUSED)
        assert "\nfrom __future__ import annotations\n" in text, f"{path}: types of today would be looked up when it is imported"
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass", feature_version=OLDEST_TO_BE_REFUSED)


def test_workers_import_neither_pydantic_nor_great_expectations():
    """Each Python worker would pay for them: 0.3 s for pydantic's models, seconds for great_expectations."""
    seen: dict[str, str] = {}
    pending = [(module, module) for module in WORKER_MODULES]
    while pending:
        module, path = pending.pop()
        parts = module.split(".")
        for name in (".".join(parts[: end + 1]) for end in range(len(parts))):
            if name not in seen:
                seen[name] = path
                if name in SOURCES:
                    pending += [(imported, f"{path} -> {imported}") for _, imported in SOURCES[name].imports()]
    assert "schemas" in seen and "assignors" in seen
    assert [seen[name] for name in ("pydantic", "great_expectations", "jinja2", "yaml") if name in seen] == []


def test_no_file_in_jobs_hides_a_library():
    """spark-submit puts the folder of ``__main__.py`` first on ``sys.path``: ``jobs/io.py`` would be everybody's ``io``."""
    names = {path.stem for path in (ROOT / "jobs").iterdir()} - {"__init__", "__main__", "__pycache__"}
    libraries = {name for name in importlib.metadata.packages_distributions() if name.isidentifier()}
    assert "pyspark" in libraries and "pipeline" in names
    assert names & (set(STDLIB) | libraries) == set()
