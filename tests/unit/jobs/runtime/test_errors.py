"""The one line that explains an error with many."""

from __future__ import annotations

import pytest

from jobs.runtime.errors import explain

CALL = "An error occurred while calling o12.sql.\n"
JAVA = f"{CALL}: org.apache.spark.SparkException: Job aborted.\n\tat org.apache\nCaused by: java.io.IOException: No space left\n"
WORKER = f"{CALL}: E: x\nCaused by: PythonException: Traceback\n  File 'a.py'\njobs.workers.guard.GroupFailedError: group g: killed\n"
TASK = "Job aborted due to stage failure: Task 0 failed 4 times, most recent failure: Lost task 0.3 (TID 3) (host executor driver):"
HEAP = f"{CALL}: org.apache.spark.SparkException: {TASK} java.lang.OutOfMemoryError: Java heap space\n\tat java.base\nCaused by: E: y\n"
TRACE = """Traceback (most recent call last):
  File "/spark/worker.py", line 2, in main
    func, profiler = read_command(pickleSer, infile)
                     ^^^^^^^^^^^^^^
ModuleNotFoundError: No module named 'jobs'

"""
AGAIN = f"""{TRACE}During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/spark/worker.py", line 9, in main
pyspark.serializers.SerializationError: Caused by Traceback
"""
PYTHON = f"{CALL}: E: {TASK} org.apache.spark.api.python.PythonException: {TRACE}\tat org.apache\n"
CAUSE = f"Caused by: org.apache.spark.api.python.PythonException: {TRACE}\tat org.apache\n"
OWN = f"{CALL}: E: x\nCaused by: PythonException: Traceback\n  File 'a.py'\njobs.runtime.errors.ClusterError: no right\n\n\tat org.apache\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", "plain words"),
        ("", "RuntimeError"),
        (JAVA, "java.io.IOException: No space left"),
        (WORKER, "group g: killed"),
        (OWN, "no right"),
        (
            HEAP,
            "Spark ran out of memory (OutOfMemoryError: Java heap space); "
            "raise its heap with --driver-memory, on a cluster with spark.executor.memory",
        ),
        (f"{HEAP}jobs.workers.guard.GroupFailedError: group g: killed\n", "group g: killed"),
        (
            f"{CALL}: E: Job 7 cancelled because SparkContext was shut down\n\tat x",
            "Spark was stopped during its work, for example by a signal to its JVM",
        ),
        (PYTHON + CAUSE, "ModuleNotFoundError: No module named 'jobs'"),
        (f"{PYTHON}{CAUSE}Caused by: java.io.IOException: No space left\n", "java.io.IOException: No space left"),
        (
            f"\n  An exception was thrown from the Python worker. Please see the stack trace below.\n{AGAIN}",
            "pyspark.serializers.SerializationError: Caused by Traceback",
        ),
        (f"{CALL}: java.lang.Error: bare\n\tat x", "java.lang.Error: bare"),
        ("An error occurred while calling o12.sql", "An error occurred while calling o12.sql"),
    ],
    ids=[
        "of Python",
        "empty",
        "first cause",
        "worker's words",
        "our own error in a worker",
        "no memory left",
        "a worker's words beside that",
        "a JVM on its way out",
        "an error of Python in a worker",
        "a cause of that in the JVM",
        "two errors of Python in a row",
        "no cause",
        "nothing but the call",
    ],
)
def test_long_error_is_explained_in_one_line(text: str, expected: str) -> None:
    assert explain(RuntimeError(text)) == expected


def test_ended_jvm_is_explained() -> None:
    assert "JVM has ended" in explain(ConnectionRefusedError(111, "Connection refused"))
