"""An archive of the classes that a local Spark loads: with it each start takes about five CPU seconds less.

Java reads and checks some 17,000 classes at each start of Spark. It can keep them in a file as it has them in memory (class data sharing,
JEP 350). The file fits one Java and one class path. Java checks both, and reads the classes themselves where the file does not fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .checkout import Spark
from .profile import JAVA_OPTIONS

VARIABLE = "EVENKEEL_CLASS_ARCHIVE"
"""The variable that switches the archive off, with the value ``off``."""
SUFFIX, FAILED, UNFINISHED = ".jsa", ".failed", ".part"
TRAINING = "jobs/runtime/class_training.py"
"""The script whose classes are kept."""
ON_CLASS_PATH = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""The variables from which Spark adds to the end of its class path."""
SILENT = "-Xlog:cds*=off"
"""Java has notices on an archive that no longer fits."""


class ClassArchive(NamedTuple):
    """The path of an archive, and an empty folder in place of Spark's conf folder.

    Java makes no archive for a class path with a folder of files, and Spark puts its conf folder there.
    """

    path: str
    empty_folder: str

    def is_there(self) -> bool:
        """Return whether the archive was made, and the folder is still there."""
        return os.path.isfile(self.path) and os.path.isdir(self.empty_folder)


def archive_name(java: str, spark: Spark, jar_files: Sequence[str]) -> str:
    """Return the file name of the archive for a Java and the jars on its class path; another one where any of these changes.

    Args:
        java: the program.
        spark: the installation.
        jar_files: the paths of Delta's jars.
    """
    import hashlib

    with os.scandir(f"{spark.home}/jars") as entries:
        of_spark = sorted(entry.path for entry in entries)
    facts = [_fact(os.path.realpath(java)), *map(_fact, of_spark), *map(_fact, jar_files)]
    return hashlib.sha256("\n".join(facts).encode("utf-8", "surrogateescape")).hexdigest()[:16] + SUFFIX


def _fact(path: str) -> str:
    found = os.stat(path)
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def using_archive(archive: str, java_options: str, root: str, jar_files: Sequence[str]) -> dict[str, str]:
    """Return the settings of Spark with which a start reads an archive.

    Args:
        archive: the path of the file.
        java_options: the other options of Java.
        root: the checkout.
        jar_files: the paths of Delta's jars.
    """
    return _settings(f"-XX:SharedArchiveFile={_quoted(archive)} {SILENT}", java_options, root, jar_files)


def training_command(
    archive: str, java_options: str, root: str, spark: Spark, jar_files: Sequence[str], settings_file: str
) -> tuple[str, ...]:
    """Return the command that makes an archive at its end.

    Args:
        archive: the path of the new file; the script uses a folder beside it.
        java_options: the other options of Java.
        root: the checkout.
        spark: the installation.
        jar_files: the paths of Delta's jars.
        settings_file: the settings of a small run.
    """
    settings = _settings(f"-XX:ArchiveClassesAtExit={_quoted(archive)} {SILENT}", java_options, root, jar_files)
    options = (word for key, value in settings.items() for word in ("--conf", f"{key}={value}"))
    given = ("--master", "local[1]", "--load-spark-defaults", "--properties-file", settings_file, "--jars", ",".join(jar_files))
    # Generated code loads more classes than interpreted plans, and has those of these too.
    return (
        f"{spark.home}/bin/spark-submit",
        *given,
        *options,
        "--conf",
        "spark.sql.codegen.factoryMode=FALLBACK",
        "--conf",
        f"spark.sql.warehouse.dir={archive}.tables/spark-warehouse",
        f"{root}/{TRAINING}",
        f"{archive}.tables",
    )


def start_variables(spark: Spark, python: str, conf_folder: str) -> dict[str, str]:
    """Return the environment variables of a local start.

    Args:
        spark: the installation.
        python: runs driver and workers.
        conf_folder: Spark's.
    """
    return {"SPARK_HOME": spark.home, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_CONF_DIR": conf_folder}


def is_switched_off(environ: Mapping[str, str]) -> bool:
    """Return whether the caller wants no archive."""
    return environ.get(VARIABLE, "") == "off"


def other_archives(folder: str, name: str) -> Iterable[str]:
    """Return the paths of files in the folder of archives that belong to no present installation."""
    stem = name[: -len(SUFFIX)]
    return [
        f"{folder}/{found}" for found in os.listdir(folder) if not found.startswith(stem) and found.endswith((SUFFIX, FAILED, UNFINISHED))
    ]


def _settings(archive_options: str, java_options: str, root: str, jar_files: Sequence[str]) -> dict[str, str]:
    # On the class path of Java too, since an archive has only classes from there.
    logging = f"-Dlog4j2.configurationFile={_quoted(f'{root}/conf/log4j2.properties')}"
    return {
        JAVA_OPTIONS: f"{java_options} {archive_options} {logging}",
        "spark.driver.extraClassPath": ":".join(jar_files),
    }


def _quoted(path: str) -> str:
    """Return a path as one word for Spark, which splits Java's options as a shell does.

    >>> print(_quoted('/a b/"c'))
    "/a b/\\"c"
    """
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
