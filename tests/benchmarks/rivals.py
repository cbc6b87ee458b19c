"""What the assignors are measured beside, kept in ``.evenkeel/rivals`` of the checkout: a Python with the peers, and Kafka's client.

Both are fetched by their ordinary clients, pip and the Ivy that PySpark ships, so their settings for mirrors and proxies hold.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from xml.sax.saxutils import quoteattr

FOLDER = Path(__file__).parents[2] / ".evenkeel" / "rivals"
PEERS = {"kafka-python": "3.0.12", "aiokafka": "0.14.0"}
KAFKA_CLIENTS = "4.3.1"
LONGEST_FETCH_S = 600


def peers_python() -> str:
    """Return a Python that has kafka-python and aiokafka; ends the process with one line where they cannot be had."""
    folder = FOLDER / "peers"
    python = folder / "bin" / "python"
    requirements = [f"{name}=={version}" for name, version in PEERS.items()]
    check = f"from importlib.metadata import version; assert [f'{{n}}=={{version(n)}}' for n in {list(PEERS)}] == {requirements}"
    if not python.exists() or subprocess.run([python, "-c", check], capture_output=True, check=False).returncode:
        venv.create(folder, clear=True, with_pip=True)
        _fetch(" and ".join(requirements), [str(python), "-m", "pip", "install", "--quiet", *requirements], folder)
    return str(python)


def kafka_jars() -> list[str]:
    """Return the jars of Kafka's client, slf4j being PySpark's; ends the process with one line where they cannot be had."""
    import pyspark

    if shutil.which("java") is None:
        sys.exit("there is no java on PATH, so nothing was measured")
    jars = Path(pyspark.__file__).parent / "jars"
    (slf4j,) = jars.glob("slf4j-api-*.jar")
    client = FOLDER / f"kafka-clients-{KAFKA_CLIENTS}.jar"
    if not client.exists():
        (ivy,) = jars.glob("ivy-*.jar")
        FOLDER.mkdir(parents=True, exist_ok=True)
        root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")  # Spark's own name for a mirror of Maven Central
        mirror = f" root={quoteattr(root)}" if root else ""
        (FOLDER / "settings.xml").write_text(
            '<ivysettings><settings defaultResolver="maven"/><resolvers>'
            f'<ibiblio name="maven" m2compatible="true"{mirror}/></resolvers></ivysettings>'
        )
        dependency = ["-dependency", "org.apache.kafka", "kafka-clients", KAFKA_CLIENTS, "-notransitive", "-types", "jar"]
        command = ["java", "-cp", str(ivy), "org.apache.ivy.Main", "-warn", "-settings", "settings.xml", "-cache", "ivy", *dependency]
        _fetch(f"kafka-clients {KAFKA_CLIENTS}", [*command, "-retrieve", "[artifact]-[revision].[ext]"], FOLDER)
    return [str(client), str(slf4j)]


def _fetch(what: str, command: list[str], folder: Path) -> None:
    print(f"fetching {what}", file=sys.stderr)
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH_S)
        reason = (result.stderr or result.stdout).strip().splitlines()[-1:] if result.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = [str(error)]
    if reason is not None:
        sys.exit(f"{what} cannot be had, so nothing was measured: {' '.join(reason) or 'no reason given'}")
