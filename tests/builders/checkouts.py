"""A checkout whose programs are fakes, for tests of the launcher."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from jobs.launcher.profile import PROFILES

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "cp", "dirname", "env", "find", "grep", "head", "ln", "mkdir", "mv", "readlink", "rm", "sleep", "tail", "touch")
JARS = ("delta-spark_4.1_2.13-4.4.0.jar", "delta-storage-4.4.0.jar")
LOCKED = {
    "core": ("pydantic==2.7.0", "numpy==1.26.0 ; python_version < '3.13'"),
    "spark": ("pyspark==4.1.3", "numpy==1.26.0 ; python_version < '3.13'"),
    "quality": ("great-expectations==1.24.1",),
    "report": ("jinja2==3.1.6",),
    "kafka": ("confluent-kafka==2.16.1",),
    "reading": ("deltalake==1.6.6",),
    "test": ("pytest==9.0.0",),
}
PYTHON = """#!{bash}
# {version}
echo "$@" >>"{log}"
case "$*" in
  *sys.version_info*) {fits} ;;
  --version) echo "Python {version}" ;;
  *ensurepip*) {ensurepip} ;;
  "-I -m venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-I -m pip "*)
    echo "pip starts" && sleep {pip_seconds}
    {pip} && cd "${{0%/bin/python}}" && mkdir -p lib/python3.11/site-packages && cp -R "{spark}" lib/python3.11/site-packages/pyspark ;;
  *) exec "{real}" "$@" ;;
esac
"""
JAVA = """#!{bash}
case "$*" in
  *ivy.Main*) echo ivy >>"{log}"; mkdir jars; {ivy} ;;
  *) echo 'openjdk version "17.0.1" 2021-10-19' >&2 ;;
esac
"""
SPARK_SUBMIT = """#!{bash}
if [[ "$*" == *class_training* ]]; then
  echo training >>"{log}"
  for last; do :; done
  [[ -n ${{TRAINING_FAILS:-}} ]] && echo 'no space' && exit 1
  echo classes >"${{last%.tables}}" && exit
fi
printf '%s\\n' "$@"
[[ -z ${{SHOW:-}} ]] || printf 'env %s\\n' "$SPARK_HOME" "$PYSPARK_PYTHON" "$PYSPARK_DRIVER_PYTHON" "$SPARK_CONF_DIR" "$PYTHONPATH"
echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2
echo 'a real error' >&2
exit "${{EXIT:-0}}"
"""


def locked(package: str) -> str:
    """Return the line of conf/requirements.lock for a package."""
    return f"{package} --hash=sha256:{hashlib.sha256(package.encode()).hexdigest()}"


class Checkout:
    """A copy of the launcher with its own PATH of fakes. Attributes control the fakes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.root = folder / "check out"
        self.bin = folder / "bin"
        self.log = folder / "calls"
        self.spark = folder / "spark"
        self.root.mkdir(parents=True)
        self.bin.mkdir()
        shutil.copy(ROOT / "spark-submit.sh", self.root)
        shutil.copy(ROOT / "setup.cfg", self.root)
        for package in ("jobs", "schemas", "assignors", "conf"):
            (self.root / package).mkdir()
        shutil.copytree(ROOT / "jobs" / "launcher", self.root / "jobs" / "launcher", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("local.yaml", *PROFILES.values()):
            shutil.copy(ROOT / "conf" / name, self.root / "conf")
        self.write_lock()
        (self.root / "jobs" / "__main__.py").write_text("print('help of', __import__('sys').argv[1:])")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        lines = [f"4.1 {hashlib.sha256(b'jar').hexdigest()} g:{jar[:-10]}:4.4.0" for jar in JARS]
        (self.root / "conf" / "delta-jars.txt").write_text("# comment\n" + "\n".join(lines) + "\n")
        self.make_spark(self.spark, "4.1.3")
        self.write_python()
        self.write_java()

    def make_spark(self, home: Path, version: str) -> Path:
        for name in ("jars", "bin"):
            (home / name).mkdir(parents=True)
        (home / "jars" / f"spark-core_2.13-{version}.jar").write_text("")
        (home / "jars" / "ivy-2.5.3.jar").write_text("")
        self.write(home / "bin" / "spark-submit", SPARK_SUBMIT)
        return home

    def write(self, path: Path, template: str, **values: object) -> None:
        path.unlink(missing_ok=True)
        path.write_text(template.format(bash=shutil.which("bash"), log=self.log, real=sys.executable, spark=self.spark, **values))
        path.chmod(0o755)

    def write_python(self, name: str = "python3", version="3.11.7", fits="exit 0", ensurepip="true", pip="true", pip_seconds=0) -> None:
        self.write(self.bin / name, PYTHON, version=version, fits=fits, ensurepip=ensurepip, pip=pip, pip_seconds=pip_seconds)

    def write_lock(self, **sections: tuple[str, ...]) -> None:
        lines = [line for name, packages in {**LOCKED, **sections}.items() for line in (f"# [{name}]", *map(locked, packages))]
        (self.root / "conf" / "requirements.lock").write_text("# comment\n" + "\n".join(lines) + "\n")

    def write_java(self, ivy: str = f"for jar in {' '.join(JARS)}; do printf jar >jars/$jar; done") -> None:
        self.write(self.bin / "java", JAVA, ivy=ivy)

    def environment(self, **extra: str) -> dict[str, str]:
        own = {"PATH": str(self.bin), "HOME": str(self.folder), "HADOOP_CONF_DIR": str(self.folder)}
        return {**own, "EVENKEEL_CLASS_ARCHIVE": "off", **extra}

    def call(self, *arguments: str, script: Path | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(script or self.root / "spark-submit.sh"), *arguments],
            env=self.environment(**extra), cwd=self.folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def refusal(self, *arguments: str, **extra: str) -> str:
        """Return the one line of a call that is refused with exit code 2."""
        result = self.call(*(arguments or ("run",)), **extra)
        assert (result.returncode, result.stdout) == (2, ""), result
        *before, line = result.stderr.splitlines()
        assert all(text.endswith((", once", " s)")) for text in before), result.stderr
        return line.removeprefix("evenkeel: ")

    def argv(self, *arguments: str, **extra: str) -> list[str]:
        """Return the arguments of spark-submit, with names in place of folders."""
        result = self.call(*arguments, **extra)
        assert result.returncode == 0, result.stderr
        jars = self.root / ".evenkeel" / "jars" / "spark-4.1"
        text = result.stdout.replace(",".join(str(jars / jar) for jar in JARS), "DELTA").replace(str(self.root), "ROOT")
        return text.replace(str(self.spark), "SPARK").splitlines()

    def count(self, what: str) -> int:
        return self.log.read_text().count(what) if self.log.exists() else 0


# Without open(), which does not exist yet when Python imports encodings.
TRAP = """import posix
posix.write(posix.open({marker!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND), b"{name} ")
"""
