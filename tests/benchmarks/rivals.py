"""A Python with the libraries that the assignors are measured beside, kept in ``.evenkeel/rivals`` of the checkout.

pip fetches them, so its settings for mirrors and proxies hold.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".evenkeel" / "rivals"
PEERS = {"kafka-python": "3.0.12", "aiokafka": "0.14.0"}
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


def _fetch(what: str, command: list[str], folder: Path) -> None:
    print(f"fetching {what}", file=sys.stderr)
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONGEST_FETCH_S)
        reason = (result.stderr or result.stdout).strip().splitlines()[-1:] if result.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = [str(error)]
    if reason is not None:
        sys.exit(f"{what} cannot be had, so nothing was measured: {' '.join(reason) or 'no reason given'}")
