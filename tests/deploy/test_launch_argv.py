"""What spark-submit gets from the calls of docs/deploy-cluster.md, pinned; every program that the launcher calls is a fake.

A golden file is the call, then the environment that matters to Spark, then one argument a line. ROOT is the checkout, HERE the caller's
current folder.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.builders.checkouts import Checkout

GOLDEN = Path(__file__).parent / "golden"
PAGE = (Path(__file__).parents[2] / "docs" / "deploy-cluster.md").read_text(encoding="utf-8")
CALLS = {
    re.sub(r"\W+", "-", title.lower()).strip("-"): call
    for title, section in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for call in re.findall(r"^```bash\n([^`]*spark-submit\.sh --master[^`]*)```", section, re.MULTILINE)
}
SPARK_SUBMIT = """#!{bash}
for name in PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON SPARK_CONF_DIR SPARK_REMOTE; do
  [[ -z ${{!name+set}} ]] || printf '%s\\n' "$name=${{!name}}"
done
printf '%s\\n' '' "$@"
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout after ``--setup``, as the page begins with; its spark-submit prints its arguments."""
    checkout = Checkout(tmp_path_factory.mktemp("checkout"))
    checkout.write(checkout.spark / "bin" / "spark-submit", SPARK_SUBMIT)
    with (checkout.root / "jobs" / "launcher" / "checks.py").open("a") as checks:
        checks.write("\n\ndef _why_unreachable(host, port):\n    return ''  # the masters of the page are nowhere\n")
    assert checkout.call("--setup").returncode == 0
    return checkout


def test_the_page_has_a_call_for_each_golden_file() -> None:
    assert sorted(CALLS) == sorted(path.stem for path in GOLDEN.glob("*.txt")) != []


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_call_of_the_page_becomes_this_argv(name: str, checkout: Checkout) -> None:
    words = shlex.split(CALLS[name].replace("\\\n", ""))
    start = words.index("./spark-submit.sh")
    environment = dict(word.split("=", 1) for word in words[:start])
    found = "\n".join(checkout.argv(*words[start + 1 :], **environment)).replace(str(checkout.folder), "HERE")
    assert f"{CALLS[name]}\n{found}\n" == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
