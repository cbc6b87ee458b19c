"""What some tests need of the machine: fetched where it may be, and a loud skip where it cannot be had."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import NoReturn

import pytest


def skip_loudly(reason: str) -> NoReturn:
    """Skip the test, or fail it where nothing may be left out."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def need_programs(programs: Sequence[str], packages: Sequence[str], else_what: str) -> None:
    """Make sure that programs are there, from Debian's packages where they are missing and may be installed.

    Args:
        else_what: what nothing shows without them, in capitals as far as it has to catch the eye.
    """
    if all(map(shutil.which, programs)):
        return
    problem = "no apt-get here, or not root"
    if shutil.which("apt-get") and os.geteuid() == 0:
        command = ["sh", "-c", f"apt-get update && apt-get install -y --no-install-recommends {' '.join(packages)}"]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode == 0:
            return
        problem = done.stderr.strip().rpartition("\n")[2]
    skip_loudly(f"{else_what}: apt-get install {' '.join(packages)} ({problem})")
