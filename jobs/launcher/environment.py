"""Paths and variables of a call, made independent of its current folder and locale."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from .command_line import FLAGS, SETTINGS, CommandLine
from .profile import own_settings

PATH_OPTIONS = {
    **dict.fromkeys(("--jars", "--py-files", "--files", "--archives"), ","),
    **dict.fromkeys(("spark.jars", "spark.submit.pyFiles", "spark.files", "spark.archives", "spark.local.dir"), ","),
    **dict.fromkeys(("--driver-class-path", "--driver-library-path", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath"), ":"),
    **dict.fromkeys(("--properties-file", "--keytab", "spark.kerberos.keytab", "spark.jars.ivy", "spark.jars.ivySettings"), ""),
    **dict.fromkeys(("spark.eventLog.dir", "spark.sql.warehouse.dir"), ""),
}
"""The options and settings of Spark whose values are paths of this machine -> the separator of several paths."""
PATH_VARIABLES = {
    **dict.fromkeys(("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "JAVA_HOME", "TMPDIR"), ""),
    **dict.fromkeys(("PYTHONUSERBASE", "PYTHONPYCACHEPREFIX"), ""),
    "SPARK_LOCAL_DIRS": ",",
}
"""The variables whose values are paths -> the separator of several paths."""
SEARCH_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SPARK_DIST_CLASSPATH")
"""The variables with folders that programs search for code; an empty one means the current folder."""
IGNORED_VARIABLES = ("PYTHONHOME", "PYTHONINSPECT", "PYTHONSTARTUP")
"""The variables that would stop the driver's Python from starting or from ending."""
UTF8_LOCALES = ("C.UTF-8", "en_US.UTF-8")
"""The locales to choose from if the caller's is not UTF-8."""


def resolve_paths(line: CommandLine, folder: str) -> CommandLine:
    """Return a call whose Spark options do not depend on the current folder, and with the folder itself for the command's own paths.

    >>> resolve_paths(CommandLine(("--conf", "spark.files=c"), ("run", "d"), jars="a.jar,/b.jar"), "/here")[:2]
    (('--conf', 'spark.files=/here/c'), ('run', 'd'))
    """
    options: list[str] = []
    words = iter(line.spark_options)
    for name in words:
        options.append(name)
        if name in FLAGS:
            continue
        value = next(words)
        if name in ("--conf", "-c"):
            setting, sign, text = value.partition("=")
            value = f"{setting}{sign}{_resolved(text, PATH_OPTIONS.get(setting), folder)}"
        options.append(_resolved(value, PATH_OPTIONS.get(name), folder))
    jars, py_files = (_resolved(paths, ",", folder) for paths in (line.jars, line.py_files))
    return line._replace(spark_options=tuple(options), jars=jars, py_files=py_files, folder=folder)


def with_own_file(line: CommandLine) -> CommandLine:
    """Return a call with what its ``--properties-file`` says of the options that the launcher needs to know; options beat that file.

    Spark reads the file itself, but in another folder: relative paths in the file become settings with absolute ones.

    Args:
        line: the call, with absolute paths.
    """
    in_file = own_settings(line.spark_options, {}).in_file
    open_fields = ((setting, field) for setting, field in SETTINGS.items() if setting in in_file and not getattr(line, field))
    fields: dict[str, Any] = {field: in_file[setting] for setting, field in open_fields}
    for field in ("jars", "py_files"):
        if field in fields:
            fields[field] = _resolved(fields[field], ",", line.folder)
    moved: list[str] = []
    for setting, separator in PATH_OPTIONS.items():
        text = in_file.get(setting)
        if setting not in SETTINGS and text is not None and _resolved(text, separator, line.folder) != text:
            moved += ["--conf", f"{setting}={_resolved(text, separator, line.folder)}"]
    return line._replace(spark_options=(*moved, *line.spark_options), **fields)


def _resolved(value: str, separator: str | None, folder: str) -> str:
    """Return paths, relative ones joined to a folder; with None as separator the value is not a path."""
    if separator is None:
        return value
    paths = value.split(separator) if separator else [value]
    # A value with a scheme is already an address; a list with colons as separators has no schemes.
    return separator.join(path if separator != ":" and _has_scheme(path) else os.path.join(folder, path) for path in paths if path)


def _has_scheme(path: str) -> bool:
    scheme, colon, _ = path.partition(":")
    return bool(colon) and scheme.isascii() and scheme.replace("+", "").replace("-", "").replace(".", "").isalnum()


def codeset(name: str) -> str:
    """Return the encoding of a locale, empty if it is not installed; for an empty name, that of the environment's locale."""
    import _locale

    before = _locale.setlocale(_locale.LC_ALL, None)
    try:
        # All categories, as the JVM does: if one names a locale that is not installed, the JVM uses "C" for all.
        _locale.setlocale(_locale.LC_ALL, name)
        return _locale.nl_langinfo(_locale.CODESET)
    except _locale.Error:  # type: ignore[attr-defined]  # the stubs have it in locale alone, whose import takes milliseconds
        return ""
    finally:
        _locale.setlocale(_locale.LC_ALL, before)


def choose_locale(find_codeset: Callable[[str], str] = codeset) -> str | None:
    """Return the locale to set so that a JVM uses UTF-8: empty if the environment's does, None if no such locale is installed."""
    return next((name for name in ("", *UTF8_LOCALES) if find_codeset(name).upper() == "UTF-8"), None)


def clean_environment(environ: Mapping[str, str], folder: str, locale: str | None) -> dict[str, str]:
    """Return the variables for programs to start: with UTF-8, and independent of the current folder.

    Args:
        environ: the caller's.
        folder: the current one.
        locale: as ``choose_locale`` returns it.
    """
    clean = {name: value for name, value in environ.items() if name not in IGNORED_VARIABLES}
    for name in PATH_VARIABLES.keys() & clean.keys():
        clean[name] = _resolved(clean[name], PATH_VARIABLES[name], folder)
    for name in SEARCH_VARIABLES:
        # Without a folder the variable is removed: an empty PATH would mean the current folder again.
        paths = clean_search_path(clean.pop(name, ""), folder)
        if paths:
            clean[name] = paths
    if locale:
        clean["LC_ALL"] = locale
    return clean


def clean_search_path(text: str, folder: str) -> str:
    """Return a list of folders without the current one, and with other relative folders joined to it.

    >>> clean_search_path(":lib:/opt:.", "/here")
    '/here/lib:/opt'
    """
    return ":".join(os.path.join(folder, path) for path in text.split(":") if os.path.normpath(path) != ".")
