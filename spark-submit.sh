#!/usr/bin/env bash
# Starts one Evenkeel command through spark-submit; `./spark-submit.sh --help` tells how.
#
# With a local master this checkout looks after itself: Python packages in .venv, Delta's jars in .evenkeel, both made by the first
# call and only checked, without starting a process that could be spared, by later ones. With SPARK_HOME or a cluster's master the
# installation is somebody else's: it is used as it is. Written for bash 3.2 and no tools beyond POSIX's, as on a Mac; one file, since
# nothing else is there yet when it starts.
set -Eeuo pipefail
# Whatever else fails before Spark starts is a matter of the environment too.
trap 'exit 2' ERR

# ---------------------------------------------------------------------------------------------------------------- messages

usage() {
  cat <<'TEXT'
Usage: ./spark-submit.sh [SPARK OPTIONS] COMMAND [OPTIONS]

Computes and audits Kafka consumer-group assignments. Commands (COMMAND --help tells its options):
  run        land, assign, audit and report in one go; without options on a recorded capture, into ./warehouse
  collect    a live Kafka cluster -> captures that land takes; needs no Java
  land       captures -> snapshots of every group generation
  assign     snapshots -> what each assignor gives to each member
  audit      assignments -> movements, imbalance, findings
  report     tables -> one HTML page and a summary
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
docs/deploy-cluster.md tells of each.

  --setup [EXTRA...]   make .venv and fetch the jars, also for these extras of setup.cfg (test), and start nothing
  --help               this text

Exit codes: 0 done; 1 failed; 2 wrong usage, settings or environment; 3 another run holds the warehouse; 4 a gate failed.
TEXT
}

say() { printf 'evenkeel: %s\n' "$*" >&2; }

# Every failure before the start of Spark is one line and exit code 2.
fail() {
  say "$@"
  exit 2
}

# ------------------------------------------------------------------------------------------------------------ command line

# Splits the arguments into spark_options, the options that we have a share in, and command.
read_arguments() {
  spark_options=() command=() master='' remote='' deploy_mode=client jars='' packages='' py_files='' setup_only=''
  while (($#)); do
    case $1 in
      -h | --help) usage && exit 0 ;;
      --setup) setup_only=yes command=("${@:2}") && return ;;
      # The options of spark-submit that take no value; every other one, known to us or not, takes one.
      -v | --verbose | --version | --supervise | --load-spark-defaults | --usage-error) spark_options+=("$1") && shift && continue ;;
      --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
      -*) ;;
      *) break ;;
    esac
    (($# > 1)) || fail "$1 needs a value; ./spark-submit.sh --help tells the usage"
    case $1=$2 in
      --jars=*) jars=$2 ;;
      --packages=*) packages=$2 ;;
      --py-files=*) py_files=$2 ;;
      --remote=*) remote=$2 ;;
      --conf=spark.remote=* | -c=spark.remote=*) remote=${2#*=} ;;
      --master=*) master=$2 && spark_options+=("$1" "$2") ;;
      --conf=spark.master=* | -c=spark.master=*) master=${2#*=} && spark_options+=("$1" "$2") ;;
      --deploy-mode=*) deploy_mode=$2 && spark_options+=("$1" "$2") ;;
      --conf=spark.submit.deployMode=* | -c=spark.submit.deployMode=*) deploy_mode=${2#*=} && spark_options+=("$1" "$2") ;;
      *) spark_options+=("$1" "$2") ;;
    esac
    shift 2
  done
  command=("$@")
}

# Prints its non-empty arguments joined by commas.
join() {
  local joined='' item
  for item; do joined+=${item:+${joined:+,}$item}; done
  printf '%s' "$joined"
}

# True when the command line asks for a command's own help.
wants_help() {
  local argument
  for argument in ${command[@]+"${command[@]}"}; do [[ $argument == -h || $argument == --help ]] && return 0; done
  return 1
}

# ----------------------------------------------------------------------------------------------------------------- checks

# Sets java, or fails unless it is of a version that Spark 4 runs on. Java itself is asked only if it has no `release` file.
find_java() {
  local home version=''
  if [[ -n ${JAVA_HOME:-} ]]; then
    java=$JAVA_HOME/bin/java home=$JAVA_HOME
    [[ -x $java ]] || fail "no Java at JAVA_HOME=$JAVA_HOME (no bin/java there); set it to a Java 17 or 21, or unset it to use java from PATH"
  else
    java=$(command -v java) || fail "no Java found: JAVA_HOME is not set and there is no java on PATH; install Java 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
    home=$(readlink -f "$java" || printf '%s' "$java") home=${home%/bin/java}
  fi
  if [[ -r $home/release ]]; then
    local line
    while IFS= read -r line; do [[ $line == JAVA_VERSION=* ]] && version=${line#*=}; done <"$home/release"
  else
    version=$("$java" -version 2>&1 || true)
    [[ $version == *' version "'* ]] || fail "$java does not run (${version%%$'\n'*}); install Java 17 or 21 and set JAVA_HOME to it"
    version=${version#*version }
    version=${version%%$'\n'*}
  fi
  version=${version#\"} version=${version%%\"*}
  case $version in
    17 | 17[.+-]* | 21 | 21[.+-]*) ;;
    *) fail "Java $version at $java does not fit; Spark 4 needs Java 17 or 21: install one and set JAVA_HOME to it" ;;
  esac
}

# Sets spark_version (4.1) from the installation in SPARK_HOME, or fails unless it is one that the jobs run on.
find_spark_version() {
  local core release=''
  for core in "$SPARK_HOME"/jars/spark-core_*.jar; do release=${core##*spark-core_*-}; done
  [[ -f $core ]] || fail "no Spark in SPARK_HOME=$SPARK_HOME (no jars/spark-core_*.jar there); set it to a Spark 4.0 or 4.1, or unset it to use .venv"
  release=${release%.jar}
  case $release in
    4.0.* | 4.1.*) spark_version=${release:0:3} ;;
    *) fail "SPARK_HOME=$SPARK_HOME is Spark $release; Evenkeel runs on Spark 4.0 and 4.1: set SPARK_HOME to one of them, or unset it to use .venv" ;;
  esac
}

# Fails unless `python` fits and has every package that the jobs import; pyspark itself comes from SPARK_HOME.
check_packages() {
  local misfit
  command -v "$python" >/dev/null || fail "no Python at $python; set PYSPARK_PYTHON to a Python 3.10 to 3.14 that has Evenkeel's packages"
  misfit=$("$python" - "$(requirements "$python" quality report)" 2>&1 <<'PYTHON'
import importlib.metadata, re, sys
if not (3, 10) <= sys.version_info < (3, 15):
    sys.exit("it is Python %d.%d, Evenkeel runs on 3.10 to 3.14" % sys.version_info[:2])
missing = []
for requirement in sys.argv[1].split():
    try:
        importlib.metadata.version(re.split("[^A-Za-z0-9_.-]", requirement)[0])
    except importlib.metadata.PackageNotFoundError:
        missing.append(f'"{requirement}"')
if missing:
    sys.exit("packages are missing, install them by " + " ".join([sys.executable, "-m pip install", *missing]))
PYTHON
  ) || fail "$(command -v "$python") (PYSPARK_PYTHON, else python3) does not fit SPARK_HOME=$SPARK_HOME: $misfit"
}

# Prints the dependencies and the named extras of setup.cfg, one a line.
requirements() {
  "$1" - "$root/setup.cfg" "${@:2}" <<'PYTHON'
import configparser, sys
config = configparser.ConfigParser()
config.read(sys.argv[1])
extras = config["options.extras_require"]
if unknown := set(sys.argv[2:]) - set(extras):
    sys.exit(f"evenkeel: setup.cfg has no extra {', '.join(sorted(unknown))}, only {', '.join(extras)}")
for text in (config["options"]["install_requires"], *(extras[extra] for extra in sys.argv[2:])):
    for line in text.split("\n"):
        if line:
            print(line)
PYTHON
}

# ------------------------------------------------------------------------------------------------------------------ setup

# True when .venv was finished, with the interpreter and the setup.cfg of now.
venv_is_complete() {
  [[ -x $venv/bin/python && -f $venv/complete && $(<"$venv/complete") == "$(stamp)" ]]
}

# Prints what .venv depends on. The interpreter's real path names its version: a system upgrade makes another stamp.
stamp() { printf '%s\n%s\n' "$(readlink -f "$venv/bin/python")" "$(<"$root/setup.cfg")"; }

# Sets SPARK_HOME and python to those of .venv.
use_venv() {
  python=$venv/bin/python
  for SPARK_HOME in "$venv"/lib/python3.*/site-packages/pyspark; do :; done
}

# Sets jar_files, the paths of Delta's jars for spark_version; false when one is absent.
find_jars() {
  local spark sum coordinate group artifact revision present=0
  jar_folder=$state/jars/spark-$spark_version jar_files=() dependencies='' sums=''
  while read -r spark sum coordinate; do
    [[ $spark == "$spark_version" || $spark == '*' ]] || continue
    IFS=: read -r group artifact revision <<<"$coordinate"
    jar_files+=("$jar_folder/$artifact-$revision.jar")
    dependencies+="<dependency org=\"$group\" name=\"$artifact\" rev=\"$revision\" transitive=\"false\"/>"
    sums+="$sum $artifact-$revision.jar"$'\n'
    [[ -s $jar_folder/$artifact-$revision.jar ]] || present=1
    [[ $artifact == delta-spark_* ]] && delta_package=$coordinate
  done <"$root/conf/delta-jars.txt"
  return $present
}

# Sets base_python to the first Python on PATH that fits.
find_base_python() {
  local candidate found=''
  for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
    base_python=$(command -v "$candidate") || continue
    "$base_python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' 2>/dev/null && return
    found=${found:-"$base_python is $("$base_python" --version 2>&1 || true)"}
  done
  fail "no fitting Python on PATH (${found:-there is no python3}); Evenkeel runs on Python 3.10 to 3.14: install one, or put it on PATH"
}

# Takes the setup lock, once, and keeps it until the setup is over. It belongs to descriptor 9, which Python borrows: a Mac has no flock(1).
lock_setup() {
  [[ -z $is_locked ]] || return 0
  { mkdir -p "$state" && : >>"$state/lock"; } 2>/dev/null ||
    fail "cannot write into $root, where the first call keeps .venv and Delta's jars; make it writable, or set SPARK_HOME to a Spark 4.1 that has Delta's jars"
  exec 9>>"$state/lock"
  "$1" - <<'PYTHON'
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("evenkeel: another call is setting up this checkout; waiting for it", file=sys.stderr)
    fcntl.flock(9, fcntl.LOCK_EX)
PYTHON
  is_locked=yes
}

# Runs a command with its output in setup.log; on failure prints one line made of `what`, the cause and the remedy, and exits.
attempt() {
  local what=$1 remedy=$2 log=$state/setup.log cause
  shift 2
  "$@" >"$log" 2>&1 && return
  # A full disk may have swallowed its own message.
  if grep -qiE 'no space left|errno 28|disk quota' "$log" || ! printf '%4096s' '' 2>/dev/null >"$log.probe"; then
    cause='no space left on the disk' remedy='free some (about 2 GB)'
  elif grep -qE 'NewConnection|NameResolution|name resolution|UnknownHost|Host .* not found|Network is unreachable|Connection refused|ConnectTimeout|timed out|ProxyError' "$log"; then
    cause='the network cannot be reached'
  else
    cause=$(grep -E '^ERROR|Exception' "$log" || grep -v '^[[:space:]]*$' "$log" | tail -n 1) || true
    cause=${cause%%$'\n'*}
  fi
  rm -f "$log.probe"
  fail "$what failed: ${cause:-it printed nothing}; $remedy, then call again (its output: $log)"
}

# Makes .venv, or brings it up to date when only setup.cfg has changed; `complete` is written last.
make_venv() {
  local started=$SECONDS
  if [[ ! -x $venv/bin/python || ! -f $venv/complete || $(head -n 1 "$venv/complete") != "$(readlink -f "$venv/bin/python")" ]]; then
    "$base_python" -c 'import ensurepip, venv' 2>/dev/null ||
      fail "$base_python has no venv or ensurepip module; install it (Debian, Ubuntu: apt install python3-venv), then call again"
    say "making .venv with $("$base_python" --version 2>&1) and Spark; about 500 MB to download, once"
    rm -rf "$venv"
    attempt 'making .venv' 'see the cause' "$base_python" -m venv "$venv"
  fi
  # Unfinished until pip is: a killed pip leaves no stamp, so that all is made anew; a pip that refuses (offline) has changed nothing.
  [[ ! -f $venv/complete ]] || mv "$venv/complete" "$venv/complete.before"
  (install_packages spark quality report kafka) || {
    [[ ! -f $venv/complete.before ]] || mv "$venv/complete.before" "$venv/complete"
    exit 2
  }
  stamp >"$venv/complete.part"
  mv "$venv/complete.part" "$venv/complete"
  say ".venv is ready ($((SECONDS - started)) s)"
}

# Installs the dependencies and the named extras of setup.cfg, not the project: a checkout runs from its sources.
install_packages() {
  requirements "$venv/bin/python" "$@" >"$venv/requirements.txt" || exit 2
  attempt 'installing the packages of setup.cfg' 'connect this machine or name a mirror by PIP_INDEX_URL' \
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --requirement "$venv/requirements.txt"
}

# Fetches Delta's jars with the Ivy that Spark ships: what --packages does, without the start of a Spark and without 26 jars too many.
fetch_jars() {
  local started=$SECONDS part=$jar_folder.part ivy repository=${DEFAULT_ARTIFACT_REPOSITORY:-}
  for ivy in "$SPARK_HOME"/jars/ivy-*.jar; do :; done
  say "fetching Delta's jars for Spark $spark_version; 13 MB, once"
  rm -rf "$part"
  mkdir -p "$part"
  printf '<ivy-module version="2.0"><info organisation="evenkeel" module="jars"/><dependencies defaultconf="default->master">%s</dependencies></ivy-module>' \
    "$dependencies" >"$part/ivy.xml"
  # Without a root this is Maven Central; the variable is Spark's own for a mirror.
  printf '<ivysettings><settings defaultResolver="maven"/><resolvers><ibiblio name="maven" m2compatible="true"%s/></resolvers></ivysettings>' \
    "${repository:+ root=\"$repository\"}" >"$part/settings.xml"
  attempt "fetching Delta's jars" 'connect this machine or name a mirror by DEFAULT_ARTIFACT_REPOSITORY' resolve_jars "$part" "$ivy"
  attempt "checking Delta's jars" 'they differ from conf/delta-jars.txt' "$python" - "$part/jars" <<PYTHON
import hashlib, pathlib, sys
for line in """$sums""".splitlines():
    expected, name = line.split()
    found = hashlib.sha256(pathlib.Path(sys.argv[1], name).read_bytes()).hexdigest()
    if found != expected:
        sys.exit(f"{name} has SHA-256 {found}, expected {expected}")
PYTHON
  rm -rf "$jar_folder"
  mv "$part/jars" "$jar_folder"
  rm -rf "$part"
  say "Delta's jars are ready ($((SECONDS - started)) s)"
}

# Runs Ivy inside its own folder: a path given to it is a pattern, in which brackets have a meaning.
resolve_jars() {
  (cd "$1" && "$java" -XX:TieredStopAtLevel=1 -cp "$2" org.apache.ivy.Main -warn \
    -settings settings.xml -ivy ivy.xml -cache cache -types jar -retrieve 'jars/[artifact]-[revision].[ext]')
}

# Sets SPARK_HOME, python and spark_version; makes .venv when no installation is named.
prepare_spark() {
  if [[ -n ${SPARK_HOME:-} ]]; then
    python=${PYSPARK_PYTHON:-python3}
    find_spark_version
    check_packages
    return
  fi
  if ! venv_is_complete; then
    find_base_python
    lock_setup "$base_python"
    venv_is_complete || make_venv
  fi
  use_venv
  find_spark_version
}

# Sets jar_files; fetches them when they are neither here nor part of the installation.
prepare_jars() {
  local jar
  jar_files=()
  for jar in "$SPARK_HOME"/jars/delta-spark_*.jar; do [[ ! -f $jar ]] || return 0; done
  if ! find_jars; then
    lock_setup "$python"
    find_jars || fetch_jars
  fi
}

# Writes .evenkeel/evenkeel.zip, what a cluster imports, when a source is newer. conf/ is found as jobs/conf in it, and setup.cfg has the
# version.
build_zip() {
  local zip=$state/evenkeel.zip part=$state/evenkeel.zip.$$
  [[ -f $zip && -z $(cd "$root" && find jobs schemas assignors conf setup.cfg -name __pycache__ -prune -o -newer "$zip" -print) ]] && return
  # Made under another name and dated before the first file is read: neither a concurrent call nor a later edit can be missed.
  { mkdir -p "$state" && : >"$part"; } 2>/dev/null || fail "cannot write into $root, where evenkeel.zip for the cluster is kept; make it writable"
  : >"$part.started"
  (cd "$root" && "$python" - "$part") <<'PYTHON'
import pathlib, sys, zipfile
folders = {"jobs": "jobs", "schemas": "schemas", "assignors": "assignors", "conf": "jobs/conf"}
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as archive:
    for folder, name in folders.items():
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                # One date for all: the same sources make the same bytes.
                member = zipfile.ZipInfo(f"{name}/{path.relative_to(folder).as_posix()}", (1980, 1, 1, 0, 0, 0))
                archive.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED)
    member = zipfile.ZipInfo("setup.cfg", (1980, 1, 1, 0, 0, 0))
    archive.writestr(member, pathlib.Path("setup.cfg").read_bytes(), zipfile.ZIP_DEFLATED)
PYTHON
  touch -r "$part.started" "$part"
  rm -f "$part.started"
  mv -f "$part" "$zip"
}

# ------------------------------------------------------------------------------------------------------------------ start

submit_locally() {
  prepare_spark
  prepare_jars
  # From the sources, not from a zip: Python keeps their compiled form. conf/ is Spark's conf folder too, for spark-defaults.conf and log4j2.
  export SPARK_HOME PYSPARK_PYTHON=$python PYSPARK_DRIVER_PYTHON=$python SPARK_CONF_DIR=$root/conf PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
  # Driver and executors talk on this machine only; no start fails on a host name without an address, as in many containers.
  export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
  [[ -n $master ]] || spark_options=(--master 'local[*,4]' ${spark_options[@]+"${spark_options[@]}"})
  # Spark makes this folder for tables without a path, of which there are none; its default is in the caller's folder.
  spark_options=(--conf "spark.sql.warehouse.dir=${TMPDIR:-/tmp}/spark-warehouse" "${spark_options[@]}")
  jars=$(join ${jar_files[@]+"${jar_files[@]}"} "$jars")
  # spark-submit runs the driver's Python with stderr merged into stdout; this names the real one (Linux), so that the two stay apart.
  # A terminal is named itself; a file only through the filter below, because a second opening would not share its position.
  exec 8>&2 9>&-
  if [[ -e /proc/$$/fd/8 ]]; then
    export EVENKEEL_STDERR=/proc/$$/fd/2
    [[ ! -t 8 ]] || EVENKEEL_STDERR=/proc/$$/fd/8
  fi
  # The JVM's notice about its vector module comes with every start of Spark 4 and has no switch.
  start spark-local.conf 2> >(exec grep --line-buffered -vF 'WARNING: Using incubator modules: jdk.incubator.vector' >&8)
}

submit_to_cluster() {
  if [[ -n ${SPARK_HOME:-} ]]; then
    python=python3
  elif venv_is_complete; then
    use_venv
    # A driver that runs on the cluster has neither .venv nor this machine's paths. One that runs here keeps to .venv also where
    # executors have a Python of their own, such as ./environment/bin/python from --archives.
    [[ $deploy_mode == cluster ]] || export PYSPARK_DRIVER_PYTHON=${PYSPARK_DRIVER_PYTHON:-$python} PYSPARK_PYTHON=${PYSPARK_PYTHON:-$python}
  else
    fail "--master $master needs SPARK_HOME, the Spark 4.0 or 4.1 installation of that cluster; nothing is installed for a cluster"
  fi
  export SPARK_HOME
  find_spark_version
  build_zip
  py_files=$(join "$state/evenkeel.zip" "$py_files")
  # Delta comes from the command line, from the installation, from .evenkeel, or is resolved by Spark, in this order.
  if [[ "$jars $packages ${spark_options[*]}" != *delta-spark_* && -z $(find "$SPARK_HOME/jars" -name 'delta-spark_*') ]]; then
    if find_jars; then jars=$(join "${jar_files[@]}" "$jars"); else packages=$(join "$delta_package" "$packages"); fi
  fi
  start spark-defaults.conf
}

# Becomes a client of a Spark Connect server: Python only, since Spark, Java and Delta's jars are the server's.
start_remotely() {
  ((${#spark_options[@]} == 0)) && [[ -z $jars$packages$py_files ]] ||
    fail "--remote takes no other options of Spark: jars, packages and settings belong to the command line of the server"
  export SPARK_REMOTE=$1
  start_without_spark
}

# Becomes spark-submit, with a settings file of conf/.
start() {
  exec "$SPARK_HOME/bin/spark-submit" --load-spark-defaults --properties-file "$root/conf/$1" ${py_files:+--py-files "$py_files"} \
    ${jars:+--jars "$jars"} ${packages:+--packages "$packages"} "${spark_options[@]}" "$root/jobs/__main__.py" ${command[@]+"${command[@]}"}
}

# Makes .venv and fetches the jars; installs the extras that are named.
set_up() {
  find_java
  prepare_spark
  prepare_jars
  ((${#command[@]})) || return 0
  [[ $python == "$venv"/* ]] || fail "--setup installs extras into .venv only; unset SPARK_HOME"
  lock_setup "$python"
  install_packages "${command[@]}"
}

# Becomes the command without Spark: Python only, neither Java nor jars.
start_without_spark() {
  prepare_spark
  PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m jobs "${command[@]}" 9>&-
}

script=${BASH_SOURCE[0]}
while [[ -L $script ]]; do
  target=$(readlink "$script")
  [[ $target == /* || $script != */* ]] || target=${script%/*}/$target
  script=$target
done
[[ $script == */* ]] || script=./$script
root=$(CDPATH='' cd -P -- "${script%/*}" && pwd)
venv=$root/.venv
state=$root/.evenkeel
is_locked=''

read_arguments "$@"
if [[ -n $setup_only ]]; then
  set_up
elif ((${#command[@]} == 0)) && [[ " ${spark_options[*]-} " != *' --version '* ]]; then
  usage >&2
  exit 2
elif [[ ${command[0]-} == collect ]]; then
  ((${#spark_options[@]} == 0)) && [[ -z $remote$jars$packages$py_files ]] || fail "collect runs without Spark: take out the options before it"
  start_without_spark
elif [[ -n $master && $master != local* && -z $remote ]]; then
  submit_to_cluster
elif wants_help; then
  start_without_spark
elif [[ -n $remote || (-z $master && -n ${SPARK_REMOTE:-}) ]]; then
  start_remotely "${remote:-$SPARK_REMOTE}"
else
  find_java
  submit_locally
fi
