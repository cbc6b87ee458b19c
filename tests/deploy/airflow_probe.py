"""What a real Airflow makes of the DAG file in its DAG folder, as JSON on the last line of stdout. Run by Airflow's own Python.

``airflow_probe.py describe`` prints what the scheduler and the form for parameters see; ``airflow_probe.py run DAG_ID CONF...`` runs a DAG
once for each CONF (JSON), with its retries, and prints the states in which it ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError
from airflow.settings import DAGS_FOLDER

GOOD = {
    "input": [["/captures/a", "b.parquet"]],
    "bootstrap_servers": ["broker-1:9092", "broker-1:9092,broker-2:9093"],
    "client_properties": ["/etc/evenkeel/client.properties"],
    "cluster_id": ["prod-eu"],
    "strategies": ["range,sticky"],
    "fail_on": ["warning"],
    "as_of": ["2026-11-22T00:00:00Z"],
}
BAD = {
    "input": ["/captures/a", [], [""], ["--warehouse=/elsewhere"]],
    "bootstrap_servers": ["broker-1", "", "--input:1"],
    "client_properties": ["", 1],
    "cluster_id": ["", ["prod-eu"]],
    "strategies": [["range"]],
    "fail_on": ["fatal", ""],
    "as_of": ["yesterday"],
}


def is_taken(params: ParamsDict, name: str, value: object) -> bool:
    """Return whether a DAG can be triggered with a value."""
    asked = ParamsDict({key: params.get_param(key) for key in params})
    try:
        asked.update({name: value})
        asked.validate()
    except ParamValidationError:
        return False
    return True


def describe(bag: DagBag) -> dict:
    """Return what of the DAGs is a promise."""
    audit = bag.dags["evenkeel_audit"].params
    return {
        "import_errors": bag.import_errors,
        "dags": {
            dag.dag_id: {
                "schedule": dag.schedule if isinstance(dag.schedule, str) else [asset.name for asset in dag.schedule],
                "catchup": dag.catchup,
                "max_active_runs": dag.max_active_runs,
                "tasks": {
                    task.task_id: {
                        "command": task.application,
                        "retries": task.retries,
                        "retry_minutes": task.retry_delay.total_seconds() / 60,
                        "outlets": sorted(asset.name for asset in task.outlets),
                    }
                    for task in dag.tasks
                },
            }
            for dag in bag.dags.values()
        },
        "params": sorted(audit),
        "refused": sorted(f"{name}={value!r}" for name, values in GOOD.items() for value in values if not is_taken(audit, name, value)),
        "taken": sorted(f"{name}={value!r}" for name, values in BAD.items() for value in values if is_taken(audit, name, value)),
    }


def main(mode: str, *rest: str) -> None:
    """Print one answer."""
    file = Path(DAGS_FOLDER) / "evenkeel_dag.py"
    if mode == "describe":
        print(json.dumps(describe(DagBag(file))))
        return
    dag_id, *confs = rest
    states = []
    for conf in confs:
        # Parsed anew, since a test run writes its conf into the DAG's parameters.
        run = DagBag(file).dags[dag_id].test(run_conf=json.loads(conf))
        states.append({"run_id": run.run_id, "state": str(run.state), "tries": [ti.try_number for ti in run.get_task_instances()]})
    print(json.dumps(states))


main(*sys.argv[1:])
