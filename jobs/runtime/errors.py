"""Errors that end a run, one class per cause; each carries the exit code of the command."""

from __future__ import annotations

from jobs.launcher.messages import INTERRUPTED


class EvenkeelError(Exception):
    """A run cannot continue; the base of all errors below. Shown as one line, never as a traceback."""

    exit_code = 1


class UsageError(EvenkeelError):
    """The command line or the settings are wrong; nothing was written."""

    exit_code = 2


class InputError(EvenkeelError):
    """An input is missing, empty or of no known format; nothing was written."""

    exit_code = 2


class PlatformError(EvenkeelError):
    """The machine or the Spark installation is not suitable; nothing was written."""

    exit_code = 2


class ClusterError(EvenkeelError):
    """A Kafka cluster does not answer, refuses the login, or forbids to read what is to be collected."""

    exit_code = 2


class TopicForbiddenError(ClusterError):
    """A Kafka cluster forbids to read ``__consumer_offsets``."""


class CaptureFolderError(EvenkeelError):
    """A folder of captures cannot be written, is in use, or does not fit the log of the cluster; its content is unchanged."""

    exit_code = 2


class CollectionBrokenError(EvenkeelError):
    """Reading from a Kafka cluster ended early; everything read until then is saved."""


class NotAWarehouseError(EvenkeelError):
    """The warehouse location has other content, or lacks tables that the command needs; nothing was written."""

    exit_code = 2


class WarehouseBusyError(EvenkeelError):
    """Another run holds the warehouse."""

    exit_code = 3


class LeaseLostError(EvenkeelError):
    """Another run has taken over the warehouse; this run has published nothing."""

    exit_code = 3


class ForeignCommitError(EvenkeelError):
    """Another program wrote to a table while this run held the warehouse; this run has published nothing."""


class WarehouseExchangedError(EvenkeelError):
    """The location has another warehouse than when the run began; this run has published nothing."""


class WarehouseDamagedError(EvenkeelError):
    """A table is damaged, or does not have the version that the last run left."""


class SchemaMismatchError(EvenkeelError):
    """A frame does not have the columns that its table declares; a defect of the program."""


class CountsDoNotBalanceError(EvenkeelError):
    """Two counts of the same rows differ; a defect of the program."""


class StageFailedError(EvenkeelError):
    """A stage failed in Spark; the text names the group if it is known."""


class GateFailedError(EvenkeelError):
    """A gate stopped publication, or ``--fail-on`` was met after it."""

    exit_code = 4


class RunIdReusedError(EvenkeelError):
    """The run id was used before with other input or settings."""

    exit_code = 4


class InterruptedRunError(EvenkeelError):
    """Ctrl-C or a signal to end has ended the command; the text says what is true of the tables."""

    exit_code = INTERRUPTED


PY4J_SAYS = "An error occurred while calling "
"""Beginning of the line that Py4J puts before a message of the JVM."""


OF_A_STOPPED_SPARK = ("No active or default Spark session found", "SparkContext was shut down", "stopped SparkContext")
"""Parts of Spark's messages for calls and jobs after it has begun to stop."""


TRACEBACK = "Traceback (most recent call last):"
"""Python's line before the places of an error; Spark writes it after the class of its own error."""


OUT_OF_MEMORY = "OutOfMemoryError"
"""Part of the name of the JVM's error for a full heap, and of Spark's error when it cannot get its share of the heap."""


def explain(error: Exception) -> str:
    """Return the line of an error that names its cause.

    This is a worker's own message if there is one, else any error of Python in a worker, else the first cause in the JVM.
    """
    if isinstance(error, ConnectionError):
        return "Spark's JVM has ended; the system's log may show why, for example too little memory"
    if any(words in str(error) for words in OF_A_STOPPED_SPARK):
        return "Spark was stopped during its work, for example by a signal to its JVM"
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
    if not worker and TRACEBACK in (causes[-1] if causes else str(error)):
        worker = _raised_in_python(str(error))
    if worker or causes:
        return (worker or causes)[-1][:2000]
    return (lines or [type(error).__name__])[0][:2000]


def _raised_in_python(text: str) -> list[str]:
    """Return the line with class and message at the end of each of Python's tracebacks in a text."""
    raised, is_inside = [], False
    for line in text.splitlines():
        if line.rstrip().endswith(TRACEBACK):
            is_inside = True
        elif is_inside and line.strip() and not line[0].isspace():
            raised.append(line.strip())
            is_inside = False
    return raised
