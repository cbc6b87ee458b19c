#!/usr/bin/env bash
# Starts one Evenkeel command through spark-submit; `./spark-submit.sh --help` says how.
#
# Only what must be shell is here: it finds the checkout that it is part of and a Python that fits, and becomes jobs/launcher.
# Written for bash 3.2 and no tools beyond POSIX's, as on a Mac.
set -Eeuo pipefail
# Whatever fails before Spark starts is a matter of the environment, which has exit code 2.
trap 'exit 2' ERR

# Prints the usage: the docstring at the head of the launcher. Needs no Python.
usage() {
  local line
  while IFS= read -r line && [[ $line != '"""' ]]; do printf '%s\n' "${line#'"""'}"; done <"$root/jobs/launcher/__init__.py"
}

# Sets python to the one of .venv, else to the first one on PATH that fits.
find_python() {
  local candidate made_with found=''
  # The interpreter that .venv was made with is known to fit. A system upgrade puts another one behind the same link.
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
  printf 'evenkeel: no fitting Python on PATH (%s); %s\n' "${found:-there is no python3}" \
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
    # Isolated and without site-packages, since only the standard library is used: that starts fastest, and no setting of the caller's
    # can harm it. Imported, so that Python keeps its compiled form; from the end of the path, so that no file of jobs/ hides a library.
    # Arguments are UTF-8, whatever the locale is. Python may set LC_CTYPE while it starts, so the launcher gets the caller's own.
    exec "$python" -I -S -X utf8 -c 'import sys; sys.path.append(sys.argv[1]); import launcher; sys.exit(launcher.main(sys.argv[2:]))' \
      "$root/jobs" "$python" "${LC_CTYPE-}" "$@"
    ;;
esac
