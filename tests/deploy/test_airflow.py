"""``conf/deploy/airflow_dag.py``: its command lines without Airflow, what a real Airflow reads in it, and real runs through it."""

from __future__ import annotations

import ast
import json
import subprocess
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable

import jobs.runtime.errors
from jobs.parser import parse
from jobs.runtime.file_lock import exclusive, this_process
from jobs.runtime.locations import RUN_LOCK
from schemas.tables import TABLES
from tests.deploy import airflow_home
from tests.deploy.airflow_home import DAG_FILE, ROOT, AirflowHome
from tests.needs import skip_loudly

GOLDEN = json.loads((Path(__file__).parent / "golden" / "airflow.json").read_text())
INTERNAL = {"group_records", "group_states"}
FAKE = r"""#!/usr/bin/env bash
here=${0%/*}
(IFS=$'\t' && printf '%s\n' "$*") >>"$here/calls"
read -r code <"$here/codes"
tail -n +2 "$here/codes" >"$here/codes.rest" && mv "$here/codes.rest" "$here/codes"
echo "Error code is: 99. is what the command itself may print"
exit "$code"
"""
BAD_RECORD = '{"partition": 1, "offset": 900001, "timestamp_ms": 1795000000000, "key_b64": "AAEAAWc=", "value_b64": "AAE="}\n'


def plain_part() -> dict[str, object]:
    """Return what the file says without Airflow: its plain constants and the function that makes the command line."""
    names: dict[str, object] = {}
    for node in ast.parse(DAG_FILE.read_text(encoding="utf-8")).body:
        is_constant = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple)
        if is_constant or (isinstance(node, ast.FunctionDef) and node.name == "arguments"):
            exec(compile(ast.Module([node], []), str(DAG_FILE), "exec"), names)
    return names


@pytest.fixture(scope="module")
def arguments() -> Callable[..., list[str]]:
    return plain_part()["arguments"]


@pytest.mark.parametrize("name", GOLDEN["options"])
def test_parameters_become_this_argv(arguments, name: str):
    case = GOLDEN["options"][name]
    argv = arguments(case["command"], case["params"], "dag/run")
    assert argv == case["argv"]
    parsed = vars(parse([case["command"], *argv])[1])
    assert parsed["warehouse"] == "/srv/evenkeel/warehouse"
    options = {key: str(value) if isinstance(value, Path) else value for key, value in parsed.items() if case["params"].get(key)}
    read = {"as_of": datetime.fromisoformat, "input": tuple, "strategies": lambda text: tuple(text.split(","))}
    assert options == {key: read.get(key, str)(value) for key, value in case["params"].items() if value}


def test_every_published_table_is_an_asset():
    assert set(plain_part()["TABLES"]) == set(TABLES) - INTERNAL


def test_only_exit_codes_that_stay_are_final():
    kinds = [
        kind
        for kind in vars(jobs.runtime.errors).values()
        if isinstance(kind, type) and issubclass(kind, jobs.runtime.errors.EvenkeelError)
    ]
    assert {kind.exit_code for kind in kinds} == {1, 2, 3, 4, 130}
    assert set(plain_part()["FINAL_EXIT_CODES"]) == {
        jobs.runtime.errors.UsageError.exit_code,
        jobs.runtime.errors.GateFailedError.exit_code,
        jobs.runtime.errors.InterruptedRunError.exit_code,
    }


# ------------------------------------------------------------------------------------------------------ in a real Airflow


@pytest.fixture(scope="module")
def airflow() -> None:
    """Airflow, installed if need be."""
    try:
        airflow_home.install()
    except airflow_home.AirflowNotThereError as error:
        skip_loudly(f"NOTHING WAS RUN THROUGH AIRFLOW: {error}")


@pytest.fixture
def airflow_at_hand(request: pytest.FixtureRequest) -> None:
    """Airflow; where slow tests are left out only if it has been installed before."""
    if "not slow" not in request.config.getoption("markexpr"):
        request.getfixturevalue("airflow")
    elif not airflow_home.is_there():
        pytest.skip(f"NOT CHECKED BY AIRFLOW: none in {airflow_home.FOLDER}; `.ci/run --all deploy` installs it (5 minutes)")


@pytest.mark.usefixtures("airflow_at_hand")
def test_airflow_reads_the_file_as_meant(tmp_path: Path):
    answer = AirflowHome(tmp_path, Path("/opt/evenkeel"), delay_seconds=None).probe("describe")
    assert answer == GOLDEN["described"]


@pytest.mark.slow
@pytest.mark.usefixtures("airflow")
def test_exit_codes_decide_on_retries(tmp_path: Path):
    """With a launcher that pretends: every try is the same call, 1 and 3 are tried again, 2, 4 and 130 are not."""
    checkout, home = tmp_path / "checkout", AirflowHome(tmp_path / "airflow", tmp_path / "checkout")
    checkout.mkdir()
    launcher = checkout / "spark-submit.sh"
    launcher.write_text(FAKE)
    launcher.chmod(0o755)
    home.migrate()
    tries = [[0], [3, 1, 0], [2], [4], [130], [1, 3, 3, 1]]
    (checkout / "codes").write_text("".join(f"{code}\n" for codes in tries for code in codes))
    confs = ["{}", json.dumps({"cluster_id": "a b", "input": ["/x y", "z"]}), "{}", "{}", "{}", "{}"]
    runs = home.probe("run", "evenkeel_audit", *confs)
    assert [run["tries"] for run in runs] == [[len(codes)] for codes in tries]
    assert [run["state"] for run in runs] == ["success", "success", "failed", "failed", "failed", "failed"]
    assert (checkout / "codes").read_text() == ""

    calls = [
        line.replace(str(checkout), "HOME").replace(str(home.folder), "PLACE") for line in (checkout / "calls").read_text().splitlines()
    ]
    expected = []
    for run, codes, conf in zip(runs, tries, map(json.loads, confs), strict=True):
        argv = GOLDEN["launcher"]["with parameters" if conf else "without parameters"]
        expected += ["\t".join(argv).replace("RUN_ID", run["run_id"])] * len(codes)
    assert calls == expected


def published(home: AirflowHome) -> list[dict]:
    runs = DeltaTable(home.warehouse / "runs").to_pyarrow_table().to_pylist()
    return sorted((run for run in runs if run["status"] == "published"), key=lambda run: run["run_sequence"])


@pytest.mark.slow
@pytest.mark.usefixtures("airflow")
def test_dag_runs_the_demo_and_handles_failing_runs(tmp_path: Path):
    """The demo through Airflow's own command; then the report, a warehouse in other hands, and a gate that fails."""
    home = AirflowHome(tmp_path / "airflow", ROOT)
    home.migrate()
    code, text = home.call("airflow", "dags", "test", "evenkeel_audit")
    assert code == 0, text
    (first,) = published(home)
    assert first["run_id"].startswith("evenkeel_audit/manual__")
    assert dict(first["output_counts"])["solutions"] > 1000
    code, text = home.call("python", "-c", QUEUED)
    assert (code, text.splitlines()[-1]) == (0, f"['evenkeel_report'] {len(TABLES) - len(INTERNAL)}"), text

    code, text = home.call("airflow", "dags", "test", "evenkeel_report")
    assert code == 0, text
    assert {path.suffix for path in home.exports.iterdir()} >= {".csv", ".json", ".prom"}

    log = home.folder / "busy.log"
    now = datetime.now(timezone.utc)
    with home.started("airflow", "dags", "test", "evenkeel_audit", log=log) as process:
        with exclusive(home.warehouse, RUN_LOCK, this_process("somebody else", now), 0, lambda: now):
            wait_for(log, "Error code is: 3.", process)
        assert process.wait(airflow_home.LONGEST_CALL_S) == 0, log.read_text()
    assert "somebody else" in log.read_text()
    assert len(published(home)) == 2

    bad = tmp_path / "bad.jsonl"
    bad.write_text(BAD_RECORD)
    code, text = home.call("airflow", "dags", "test", "evenkeel_audit", "--conf", json.dumps({"input": [str(bad)]}))
    assert code == 1, text
    assert text.count("Spark-Submit cmd:") == 1 and "Error code is: 4." in text
    assert len(published(home)) == 2


QUEUED = """
from airflow.models.asset import AssetDagRunQueue, AssetEvent
from airflow.utils.session import create_session
with create_session() as session:
    print([row.target_dag_id for row in session.query(AssetDagRunQueue)], session.query(AssetEvent).count())
"""


def wait_for(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a text is in a log, or the process that writes it has ended."""
    until = time.monotonic() + airflow_home.LONGEST_CALL_S
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None and time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.5)
