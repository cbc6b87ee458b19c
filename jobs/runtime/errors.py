"""Errors that end a run, one class per cause; each carries the exit code of the command."""

from __future__ import annotations


class EvenkeelError(Exception):
    """A run cannot go on; the base of all below. Shown as one clear line, never as a traceback."""

    exit_code = 1


class UsageError(EvenkeelError):
    """The command line or the settings are wrong; nothing was written."""

    exit_code = 2


class InputError(EvenkeelError):
    """An input is missing, empty or of no known format; nothing was written."""

    exit_code = 2


class PlatformError(EvenkeelError):
    """The machine or the Spark installation does not fit; nothing was written."""

    exit_code = 2


class ClusterError(EvenkeelError):
    """A Kafka cluster does not answer, does not let us in, or does not let us read what there is to collect."""

    exit_code = 2


class TopicForbiddenError(ClusterError):
    """A Kafka cluster does not let us read ``__consumer_offsets``."""


class CaptureFolderError(EvenkeelError):
    """A folder of captures cannot be written, is in use, or does not go on where the cluster is; what is in it stays."""

    exit_code = 2


class CollectionBrokenError(EvenkeelError):
    """Reading from a Kafka cluster ended early; what was read until then is saved."""


class NotAWarehouseError(EvenkeelError):
    """The warehouse location holds something else, or lacks what the command needs; nothing was written."""

    exit_code = 2


class WarehouseBusyError(EvenkeelError):
    """Another run holds the warehouse."""

    exit_code = 3


class LeaseLostError(EvenkeelError):
    """Another run has taken the warehouse over; what this one wrote was not published."""

    exit_code = 3


class ForeignCommitError(EvenkeelError):
    """Somebody else wrote to a table while this run held the warehouse; what this one wrote was not published."""


class WarehouseExchangedError(EvenkeelError):
    """The location of the warehouse leads to another one than when the run began; what this one wrote was not published."""


class WarehouseDamagedError(EvenkeelError):
    """A table is not at a version that a run left behind."""


class SchemaMismatchError(EvenkeelError):
    """A frame does not have the shape its table declares; a defect of the program."""


class CountsDoNotBalanceError(EvenkeelError):
    """Input records are unaccounted for; a defect of the program."""


class StageFailedError(EvenkeelError):
    """Spark gave up on a stage; the text names the group where it is known."""


class GateFailedError(EvenkeelError):
    """A gate stopped publication, or ``--fail-on`` was met after it."""

    exit_code = 4


class RunIdReusedError(EvenkeelError):
    """The run id was used before with other input or settings."""

    exit_code = 4


PY4J_SAYS = "An error occurred while calling "
"""Begins the line that Py4J puts before what the JVM says, if the JVM says anything."""


OF_A_STOPPED_SPARK = ("No active or default Spark session found", "SparkContext was shut down", "stopped SparkContext")
"""What Spark says of calls and jobs after its end has begun."""


OUT_OF_MEMORY = "OutOfMemoryError"
"""Is in the name of what the JVM raises where its heap is full, and of what Spark does where it could not get its share of it."""


def explain(error: Exception) -> str:
    """Return the line of an error that says what happened: a worker's own words where there are any, or the first cause in the JVM."""
    if isinstance(error, ConnectionError):
        return "Spark's JVM has ended; the system's log may tell why, such as a want of memory"
    if any(words in str(error) for words in OF_A_STOPPED_SPARK):
        return "Spark has been stopped while it was at work, by a signal to its JVM for one"
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(PY4J_SAYS)] or lines
    worker = [
        line.partition(": ")[2] for line in lines if line.startswith(("jobs.runtime.errors.", "jobs.audit.udfs.", "jobs.workers.guard."))
    ]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    full = next((line for line in lines if OUT_OF_MEMORY in line), None)
    if full is not None and not worker:
        what = f"{OUT_OF_MEMORY}{full.rpartition(OUT_OF_MEMORY)[2]}"[:200]
        return f"Spark ran out of memory ({what}); raise its heap with --driver-memory, on a cluster with spark.executor.memory"
    if worker or causes:
        return (worker or causes)[-1][:2000]
    return (lines or [type(error).__name__])[0][:2000]
