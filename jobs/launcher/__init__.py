"""Usage: ./spark-submit.sh [SPARK OPTIONS] COMMAND [OPTIONS]

Computes and audits Kafka consumer-group assignments. Commands (COMMAND --help tells its options):
  run        land, assign, audit and report in one go; without options on a recorded capture, into ./warehouse
  collect    a live Kafka cluster -> captures that land takes; needs no Java
  land       captures -> snapshots of every group generation
  assign     snapshots -> what each assignor gives to each member
  audit      assignments -> movements, imbalance, findings
  report     tables -> one HTML page and a summary
  what-if    a change to groups -> what each assignor would make of it; needs no Java
  maintain   tables -> drops old months, merges small files, removes files that nobody can be reading
  verify     tables -> what is wrong with their log, files and rows; changes nothing

Spark options go before the command and are passed on to spark-submit, for example:
  ./spark-submit.sh run
  ./spark-submit.sh --driver-memory 8g land --input captures/ --warehouse /data/audit
  ./spark-submit.sh --master yarn --packages org.example:extra:1.0 run --config conf/cluster.yaml
  ./spark-submit.sh --remote sc://host:15002 run --config conf/cluster.yaml

Without SPARK_HOME the first call makes .venv (Python 3.10 to 3.14) and fetches Delta's jars; later calls work offline.
With SPARK_HOME that installation is used (Spark 4.0 or 4.1) with PYSPARK_PYTHON, else python3. Java 17 or 21 is needed: JAVA_HOME,
else java on PATH. A master that is not local gets conf/spark-defaults.conf over the cluster's own defaults, and nothing is
installed; name Delta's jars there by --jars, else Spark resolves them. --remote uses a Spark Connect server, without Java here.
docs/deploy-cluster.md tells of each. With a local master the bytes that a command reads decide between settings for a small and for a
large run; EVENKEEL_PROFILE=small or large decides instead.

  --setup [EXTRA...]   make .venv and fetch the jars, also for these extras of setup.cfg (test), and start nothing
  --help               this text

Exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment; 3 another run holds the warehouse; 4 a gate failed.
"""

# The docstring is the usage text, which spark-submit.sh prints where there is no Python. That script starts this package with any Python 3
# and without site-packages, so it imports nothing but the standard library, and late what not every start needs. There its name is
# launcher, elsewhere jobs.launcher, so its modules import each other by relative names. Records are named tuples, since dataclasses alone
# would cost a start 15 ms more.
#
# With a local master a checkout looks after itself: Python packages in .venv, Delta's jars in .evenkeel, both made by the first call and
# only checked, without starting a process, by later ones. With SPARK_HOME or a cluster's master the installation belongs to somebody
# else: it is used as it is.

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

from .archive import update_zip
from .checks import (
    check_for_java,
    check_open_files,
    check_python,
    check_words,
    current_folder,
    find_java,
    find_spark,
    hard_limit_of_open_files,
)
from .command_line import CommandLine, choose_way, parse
from .environment import choose_locale, clean_environment, resolve_paths
from .making import Setup
from .messages import EXIT_CODE, Refusal, say
from .profile import PROFILE_VARIABLE, choose_profile, find_machine, own_settings
from .start import Start, become, cluster_start, local_start, python_start
from .workload import find_workload


def prepare(line: CommandLine, way: str, setup: Setup) -> Start | None:
    """Make what a call needs and return what it becomes; None when nothing is to be started."""
    root, environ = setup.root, setup.environ
    if way in ("local", "cluster"):
        check_open_files(hard_limit_of_open_files())
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
    if way == "local" and line.command:
        conf_folder, forced = f"{root}/conf", environ.get(PROFILE_VARIABLE, "")
        own = own_settings(line.spark_options, environ)
        profile = choose_profile(find_workload(line, conf_folder), conf_folder, forced, find_machine(), own)
    java = find_java(environ)
    spark, python = setup.prepare_spark()
    jar_files = setup.prepare_jars(spark, java)
    if way == "local":
        return local_start(line, root, spark, python, jar_files, environ, profile)
    if extras:
        if python != setup.venv_python:
            raise Refusal("--setup installs extras into .venv only; unset SPARK_HOME")
        setup.add_extras(extras)
    return None


def main(arguments: Sequence[str]) -> int:
    """Become what the call asks for, or return an exit code.

    Args:
        arguments: the Python that the script found, the caller's LC_CTYPE, and the caller's arguments.
    """
    # Ctrl-C ends the launcher as it ends a shell, with what it has started.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
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
        line = resolve_paths(parse(words), folder)
        way = choose_way(line, environ)
        if way == "usage":
            print(__doc__, end="", file=sys.stdout if line.asks_usage else sys.stderr)
            return 0 if line.asks_usage else EXIT_CODE
        start = prepare(line, way, Setup(root, python, environ))
        if start is not None:
            if start.folder:
                check_for_java(start, utf8_locale)
            if start.notice:
                say(start.notice)
            become(start)
        return 0
    except Refusal as refusal:
        say(str(refusal))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            say(f"no space left on the disk of {root}; free some (about 2 GB), then call again")
        else:
            say(f"cannot go on: {error.filename or root}: {error.strerror}")
    return EXIT_CODE
