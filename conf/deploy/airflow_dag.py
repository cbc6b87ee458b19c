"""Three DAGs for Airflow 3 (3.3 or newer): an audit of new captures, a report after each published run, and maintenance of the tables.

Copy this file into the DAG folder and edit the names below; docs/deploy-airflow.md has the details. The file imports nothing of
Evenkeel and decides nothing: each task is one command line for ``spark-submit.sh``.

It starts the launcher, not Spark's own spark-submit, which has the same arguments with a file in place of the command. The launcher
adds the jars, the archive for the cluster and the settings. It keeps the cluster's own defaults (the operator has no parameter for
--load-spark-defaults), and ends with the exit code of the command.
"""

import re
from datetime import datetime, timedelta, timezone

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# A checkout of Evenkeel that every worker sees at this path.
HOME = "/opt/evenkeel"
# Settings in YAML; this one reads the recorded demo capture.
SETTINGS = "/opt/evenkeel/conf/local.yaml"
# A folder, a path in an object store, or catalog.schema.
WAREHOUSE = "/srv/evenkeel/warehouse"
# Folder for the CSV, JSON and Prometheus files that are written after each audit.
EXPORTS = "/srv/evenkeel/exports"
# Connection of type spark: its host is the master, its extras name queue, deploy mode and so on.
CONNECTION = "spark_default"
SCHEDULE = "@hourly"
RETRIES = 3
RETRY_DELAY = timedelta(minutes=5)

TABLES = (
    "subscription_snapshots",
    "generation_topics",
    "topic_snapshots",
    "offset_snapshots",
    "assignments",
    "solutions",
    "movements",
    "generation_audits",
    "findings",
    "quarantine",
    "runs",
)
# All are updated together, when a run publishes. Other DAGs name them: schedule=[Asset("evenkeel/findings")].
ASSETS = {table: Asset(f"evenkeel/{table}") for table in TABLES}

# Wrong usage, and a gate: another try would end in the same way. An interrupt (130): somebody wants it to end. After a failure (1), or if
# another run held the warehouse (3), another try may succeed.
FINAL_EXIT_CODES = (2, 4, 130)


def arguments(command: str, params: dict, run_id: str) -> list[str]:
    """Return the options of a command; parameters without a value come from the settings."""
    options = [f"--config={SETTINGS}", f"--warehouse={WAREHOUSE}"]
    if command == "report":
        return [*options, "--export=csv,json,prometheus", f"--export-dir={EXPORTS}"]
    # The same in every try of a task: if its run is already published, a try does nothing.
    options.append(f"--run-id={run_id}")
    for name in ("bootstrap_servers", "client_properties", "cluster_id", "strategies", "fail_on", "as_of"):
        if params.get(name):
            options.append(f"--{name.replace('_', '-')}={params[name]}")
    if params.get("input"):
        options += ["--input", *params["input"]]
    return options


class EvenkeelOperator(SparkSubmitOperator):
    """Runs one command of Evenkeel; fails without another try if that would not help."""

    def __init__(self, *, command: str, **options):
        # A binary that is named here may be a path, unlike one in the connection.
        super().__init__(
            application=command, spark_binary=f"{HOME}/spark-submit.sh", name=f"evenkeel-{command}", conn_id=CONNECTION, **options
        )

    def execute(self, context):
        """Start the command and wait for its end."""
        self.application_args = arguments(self.application, context["params"], f"{self.dag_id}/{context['run_id']}")
        try:
            super().execute(context)
        except AirflowException as error:
            # The operator gives the exit code only in its text, after the command line.
            code = re.search(r"\. Error code is: (\d+)\.", str(error))
            if code and int(code[1]) in FINAL_EXIT_CODES:
                raise AirflowFailException(str(error)) from error
            raise


def optional(description: str, **schema) -> Param:
    """Return a parameter that may be empty; the schema applies to a text that is not."""
    return Param(None, description=description, type=["null", "string"], **({"minLength": 1} | schema))


COMMON = {
    "start_date": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "catchup": False,
    "max_active_runs": 1,
    "default_args": {"retries": RETRIES, "retry_delay": RETRY_DELAY},
    "tags": ["evenkeel"],
}

with DAG(
    "evenkeel_audit",
    description="Lands new captures, assigns, audits, and publishes",
    schedule=SCHEDULE,
    params={
        "input": Param(
            None,
            description="Captures: files or folders. Empty: those of the settings",
            type=["null", "array"],
            items={"type": "string", "pattern": "^[^-]"},
            minItems=1,
        ),
        "bootstrap_servers": optional("A live cluster to read, as host:port,host:port", pattern=r"^[^\s-]\S*:\d+$"),
        "client_properties": optional("File with properties of librdkafka for it"),
        "cluster_id": optional("Name of the Kafka cluster; overrides the name in the capture"),
        "strategies": optional("Assignors to compare, separated by commas"),
        "fail_on": optional("Publish, then fail if a new finding is this severe or worse", enum=[None, "info", "warning", "critical"]),
        "as_of": optional("The run's clock, for captures that have no time", format="date-time", pattern=r"^\d{4}-\d\d-\d\dT\d\d:"),
    },
    **COMMON,
):
    EvenkeelOperator(task_id="run", command="run", outlets=list(ASSETS.values()))

with DAG(
    "evenkeel_report",
    description="Writes the page and the exports of the published run",
    schedule=[ASSETS["runs"]],
    **COMMON,
):
    EvenkeelOperator(task_id="report", command="report")

with DAG(
    "evenkeel_maintain",
    description="Removes old months, merges small files, removes files that no version uses",
    schedule="@weekly",
    **COMMON,
):
    EvenkeelOperator(task_id="maintain", command="maintain", outlets=list(ASSETS.values()))
