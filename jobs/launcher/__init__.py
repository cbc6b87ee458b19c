"""Usage: ./spark-submit.sh [SPARK OPTIONS] COMMAND [OPTIONS]

Computes and audits Kafka consumer-group assignments. Commands (COMMAND --help lists its options):
  run        land, assign, audit and report in one session; without options it reads a recorded capture into ./warehouse
  collect    a live Kafka cluster -> captures for land; needs no Java
  land       captures -> snapshots of every group generation
  assign     snapshots -> the partitions that each assignor gives to each member
  audit      assignments -> movements, imbalance, findings
  report     tables -> one HTML page and a summary
  show       a group in any generation, or the list of groups; needs no Java
  explain    a generation of a group in sentences: what happened, why, what to change; needs no Java
  sql        one query over the published tables -> a table, CSV or JSON; changes nothing
  what-if    a change to groups -> the assignment that each assignor would give; needs no Java
  maintain   tables -> removes old months, merges small files, removes files that no reader can use
  verify     tables -> the damage in their log, files and rows; changes nothing

Spark options come before the command and are passed to spark-submit, for example:
  ./spark-submit.sh run
  ./spark-submit.sh --driver-memory 8g land --input captures/ --warehouse /data/audit
  ./spark-submit.sh --master yarn --packages org.example:extra:1.0 run --config conf/cluster.yaml
  ./spark-submit.sh --remote sc://host:15002 run --config conf/cluster.yaml

Without SPARK_HOME the first call makes .venv (Python 3.10 to 3.14) and fetches Delta's jars; later calls work offline.
With SPARK_HOME it uses that installation (Spark 4.0 or 4.1) with PYSPARK_PYTHON, else python3. It needs Java 17 or 21: JAVA_HOME,
else java on PATH. On a cluster's master it adds conf/spark-defaults.conf to the cluster's own defaults and installs nothing; give
Delta's jars with --jars, else Spark resolves them. --remote uses a Spark Connect server, without Java here. docs/deploy-cluster.md
describes each. With a local master the bytes that a command reads decide between settings for a small and for a large run;
EVENKEEL_PROFILE=small or large decides instead.

  --setup [EXTRA...]   make .venv, also with these extras of setup.cfg (test), and fetch the jars; start nothing
  --help, help COMMAND this text, or that of a command
  --version            the version of Evenkeel

Exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment; 3 another run holds the warehouse; 4 a gate failed;
130 interrupted.
"""

# The docstring is the usage text; spark-submit.sh prints it even without Python. That script starts this package with any Python 3 and
# without site-packages. So the package imports only the standard library, and imports late what not every start needs. Its name is
# launcher there and jobs.launcher elsewhere, so its modules use relative imports. Records are named tuples, since importing dataclasses
# would add 15 ms to each start.
#
# With a local master a checkout needs no installation: the first call makes Python packages in .venv and Delta's jars in .evenkeel, and
# later calls only check them, without starting a process. With SPARK_HOME or a cluster's master the installation belongs to another
# owner and is never changed.

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

from .archive import update_zip
from .checkout import own_version
from .checks import (
    check_deploy_mode,
    check_for_java,
    check_master,
    check_open_files,
    check_python,
    check_values,
    check_words,
    current_folder,
    find_java,
    find_spark,
    hard_limit_of_open_files,
)
from .command_line import WITH_SPARK, WITHOUT_SPARK, CommandLine, choose_way, log_format, parse
from .environment import choose_locale, clean_environment, resolve_paths, with_own_file
from .making import Setup
from .messages import EXIT_CODE, INTERRUPTED, TABLES_AS_BEFORE, Refusal, end_line, mute, say, write
from .profile import PROFILE_VARIABLE, choose_profile, find_machine, own_settings
from .start import Start, become, cluster_start, local_start, python_start
from .workload import find_workload


def prepare(line: CommandLine, way: str, setup: Setup) -> Start | None:
    """Make what a call needs; return the program to start, None for none."""
    root, environ = setup.root, setup.environ
    if way in ("local", "cluster"):
        check_open_files(hard_limit_of_open_files())
        check_values(line.spark_options)
        check_deploy_mode(line.deploy_mode, line.master)
        check_master(line.master, environ)
    if way == "cluster":
        home, python = environ.get("SPARK_HOME"), ""
        if home:
            spark = find_spark(home)
        elif setup.has_venv():
            spark, python = setup.venv_spark(), setup.venv_python
        else:
            needed = f"--master {line.master} needs SPARK_HOME, the Spark 4.0 or 4.1 installation of that cluster"
            raise Refusal(f"{needed}; nothing is installed for a cluster")
        update_zip(root)
        return cluster_start(line, root, spark, python, setup.jar_files(spark), setup.jars(spark), environ)
    if way in ("python", "remote"):
        address = line.remote or environ["SPARK_REMOTE"] if way == "remote" else ""
        return python_start(line, root, setup.prepare_spark()[1], environ, address)
    extras = line.setup_extras or ()
    if extras:
        setup.check_extras(extras)
    profile = None
    if way == "local":
        conf_folder, forced = f"{root}/conf", environ.get(PROFILE_VARIABLE, "")
        own = own_settings(line.spark_options, environ)
        profile = choose_profile(find_workload(line, conf_folder), conf_folder, forced, find_machine(), own)
    java = find_java(environ)
    spark, python = setup.prepare_spark()
    jar_files = setup.prepare_jars(spark, java)
    archive = setup.prepare_classes(spark, python, java, jar_files)
    if way == "local":
        return local_start(line, root, spark, python, jar_files, environ, profile, archive)
    if extras:
        if python != setup.venv_python:
            raise Refusal("--setup installs extras into .venv only; unset SPARK_HOME")
        setup.add_extras(extras)
    return None


def main(arguments: Sequence[str]) -> int:
    """Replace this process by the program of the call, or return an exit code.

    Args:
        arguments: the Python that the script found, the caller's LC_CTYPE, and the caller's arguments.
    """
    # A script that starts a call with & makes it ignore SIGINT; who sends that signal all the same means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    python, locale, *words = arguments
    os.environ.pop("LC_CTYPE", None)
    if locale:
        os.environ["LC_CTYPE"] = locale
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        check_python(sys.version_info[:2])
        check_words(words)
        folder, utf8_locale = current_folder(), choose_locale()
        environ = clean_environment(os.environ, folder, utf8_locale)
        line = with_own_file(resolve_paths(parse(words), folder))
        way = choose_way(line, environ)
        if way == "usage":
            try:
                print(__doc__, end="", file=sys.stdout if line.asks_usage else sys.stderr, flush=True)
            except BrokenPipeError:  # the reader, such as head, has what it wanted
                mute(1 if line.asks_usage else 2)
            return 0 if line.asks_usage else EXIT_CODE
        if way == "version":
            print(f"evenkeel {own_version(root)}")
            return 0
        start = prepare(line, way, Setup(root, python, environ))
        if start is not None:
            if start.folder:
                check_for_java(start, utf8_locale)
            if start.notice:
                say(start.notice)
            become(start)
        return 0
    except KeyboardInterrupt:
        say(f"interrupted; {TABLES_AS_BEFORE}")
        return INTERRUPTED
    except Refusal as refusal:
        reason = str(refusal)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = f"no space left on the disk of {root}; free some (about 2 GB), then call again"
        else:
            reason = f"cannot continue: {error.filename or root}: {error.strerror}"
    if log_format(words) == "json":
        write(end_line(next((word for word in words if word in (*WITH_SPARK, *WITHOUT_SPARK)), ""), reason))
    else:
        say(reason)
    return EXIT_CODE
