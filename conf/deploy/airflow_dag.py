"""Three DAGs for Airflow 3 (3.3 or newer): an audit of what is new, a report whenever one was published, and upkeep of the tables.

Copy this file into the DAG folder and edit the names below; docs/deploy-airflow.md tells the rest. Nothing of Evenkeel is imported
and nothing is decided here: each task is one command line for ``spark-submit.sh``.

Started is the launcher and not Spark's own spark-submit, which takes the same arguments with a file in the command's place. The
launcher knows the jars, the archive for the cluster and the settings, keeps the cluster's own defaults beside ours (the operator
has no word for --load-spark-defaults), and ends with the command's own exit code.
"""

import re
from datetime import datetime, timedelta, timezone

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset, Param
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# A checkout of Evenkeel that every worker sees at this place.
HOME = "/opt/evenkeel"
# Settings in YAML; this one reads the recorded demo capture.
SETTINGS = "/opt/evenkeel/conf/local.yaml"
# A folder, a place in an object store, or catalog.schema.
WAREHOUSE = "/srv/evenkeel/warehouse"
# Folder for the CSV, JSON and Prometheus files that are written after each audit.
EXPORTS = "/srv/evenkeel/exports"
# Connection of type spark: its host is the master, its extras name queue, deploy mode and the like.
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
# All move together, when a run publishes. Other DAGs name them: schedule=[Asset("evenkeel/findings")].
ASSETS = {table: Asset(f"evenkeel/{table}") for table in TABLES}

# Wrong usage, and a gate: the same call would end in the same way. A failure (1) and a warehouse that another run holds (3) may pass.
FINAL_EXIT_CODES = (2, 4)


def arguments(command: str, params: dict, run_id: str) -> list[str]:
    """Return the options of a command; a parameter without a value is left to the settings."""
    options = [f"--config={SETTINGS}", f"--warehouse={WAREHOUSE}"]
    if command == "report":
        return [*options, "--export=csv,json,prometheus", f"--export-dir={EXPORTS}"]
    # The same in every try of a task: one that finds its run published does nothing.
    options.append(f"--run-id={run_id}")
    for name in ("bootstrap_servers", "client_properties", "cluster_id", "strategies", "fail_on", "as_of"):
        if params.get(name):
            options.append(f"--{name.replace('_', '-')}={params[name]}")
    if params.get("input"):
        options += ["--input", *params["input"]]
    return options


class EvenkeelOperator(SparkSubmitOperator):
    """Runs one command of Evenkeel; fails for good where trying again is no use."""

    def __init__(self, *, command: str, **options):
        # A binary that is named here, other than one in the connection, may be a path.
        super().__init__(
            application=command, spark_binary=f"{HOME}/spark-submit.sh", name=f"evenkeel-{command}", conn_id=CONNECTION, **options
        )

    def execute(self, context):
        """Start the command and wait for its end."""
        self.application_args = arguments(self.application, context["params"], f"{self.dag_id}/{context['run_id']}")
        try:
            super().execute(context)
        except AirflowException as error:
            # The operator tells the exit code in its text only, behind the command line.
            told = re.search(r"\. Error code is: (\d+)\.", str(error))
            if told and int(told[1]) in FINAL_EXIT_CODES:
                raise AirflowFailException(str(error)) from error
            raise


def optional(description: str, **schema) -> Param:
    """Return a parameter that may be left empty; the schema is for a text that is not."""
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
    description="Lands what is new, assigns, audits, and publishes",
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
        "client_properties": optional("File with librdkafka's properties for it"),
        "cluster_id": optional("Name of the Kafka cluster; beats the capture's own"),
        "strategies": optional("Assignors to compare, separated by commas"),
        "fail_on": optional("Publish, then fail when a new finding is this severe", enum=[None, "info", "warning", "critical"]),
        "as_of": optional("The run's clock, for captures that do not tell theirs", format="date-time", pattern=r"^\d{4}-\d\d-\d\dT\d\d:"),
    },
    **COMMON,
):
    EvenkeelOperator(task_id="run", command="run", outlets=list(ASSETS.values()))

with DAG(
    "evenkeel_report",
    description="Writes the page and the exports of what was published",
    schedule=[ASSETS["runs"]],
    **COMMON,
):
    EvenkeelOperator(task_id="report", command="report")

with DAG(
    "evenkeel_maintain",
    description="Drops old months, merges small files, removes files that no version names",
    schedule="@weekly",
    **COMMON,
):
    EvenkeelOperator(task_id="maintain", command="maintain", outlets=list(ASSETS.values()))
