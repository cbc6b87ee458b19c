#!/usr/bin/env bash
# Starts one Evenkeel command through spark-submit; see `./spark-submit.sh --help`.
#
# It finds its own checkout and a suitable Python, and starts jobs/launcher, which does the rest.
# It needs only bash 3.2 and the tools of POSIX, as on a Mac.
set -Eeuo pipefail
# A failure before Spark starts is a failure of the environment, with exit code 2.
trap 'exit 2' ERR
trap 'printf "evenkeel: interrupted; the tables are as before\n" >&2; exit 130' INT

# Prints the usage: the docstring at the head of the launcher. Needs no Python.
usage() {
  local line
  while IFS= read -r line && [[ $line != '"""' ]]; do printf '%s\n' "${line#'"""'}"; done <"$root/jobs/launcher/__init__.py"
}

# Sets python to the one of .venv, else to the first suitable one on PATH.
find_python() {
  local candidate made_with found=''
  # The interpreter that made .venv is suitable. After a system upgrade the same link may lead to another interpreter.
  if [[ -r $root/.venv/complete ]]; then
    python=$root/.venv/bin/python
    IFS= read -r made_with <"$root/.venv/complete" || made_with=''
    [[ -x $python && $python -ef $made_with ]] && return
  fi
  for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10 "${PYSPARK_PYTHON:-}"; do
    python=$(command -v "$candidate") || continue
    "$python" -I -S -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 15))' 2>/dev/null && return
    found=${found:-"$python is $("$python" --version 2>&1 || true)"}
  done
  printf 'evenkeel: no suitable Python on PATH (%s); %s\n' "${found:-there is no python3}" \
    'Evenkeel runs on Python 3.10 to 3.14: install one, or put it on PATH' >&2
  exit 2
}

script=${BASH_SOURCE[0]}
while [[ -L $script ]]; do
  target=$(readlink "$script")
  [[ $target == /* || $script != */* ]] || target=${script%/*}/$target
  script=$target
done
[[ $script == */* ]] || script=./$script
root=$(CDPATH='' cd -P -- "${script%/*}" && pwd)

case ${1-} in
  -h | --help) usage ;;
  *)
    if [[ ! -r $root/jobs/launcher/__init__.py ]]; then
      printf 'evenkeel: no jobs/launcher in %s; start the spark-submit.sh of a whole checkout, or a link to it\n' "$root" >&2
      exit 2
    fi
    find_python
    export EVENKEEL_PROGRAM=$0
    # Isolated and without site-packages, since the launcher uses only the standard library: that starts fastest, and the caller's
    # settings cannot harm it. Imported, so that Python stores its compiled form; at the end of the path, so that no file of jobs/ hides a
    # library. Arguments are UTF-8 in every locale. Python may set LC_CTYPE when it starts, so the launcher gets the caller's own.
    exec "$python" -I -S -X utf8 -c 'import sys; sys.path.append(sys.argv[1]); import launcher; sys.exit(launcher.main(sys.argv[2:]))' \
      "$root/jobs" "$python" "${LC_CTYPE-}" "$@"
    ;;
esac
