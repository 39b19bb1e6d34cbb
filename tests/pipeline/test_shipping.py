"""The archives for executors: their content, and that a bare Python can import them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

from ottla.pipeline.session import shipping
from ottla.pipeline.session.shipping import Shipment, build_shipment


def bare_python(program: str, *paths: str, **environment: str) -> str:
    """Run a program with a Python outside this environment that has only these paths."""
    done = subprocess.run(
        [os.path.realpath(sys.executable), "-S", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": os.pathsep.join(paths), "PATH": os.environ["PATH"], **environment},
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_code_archive_has_the_packages_only(tmp_path):
    shipment = build_shipment("code", cache=str(tmp_path))
    assert shipment.dependencies is None
    assert shipment.code is not None
    with zipfile.ZipFile(shipment.code) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"ottla", "pyspark_ottla", "pyspark_ottla_lake"}
    assert "ottla/client/__init__.py" in names
    assert "pyspark_ottla_lake/writers.py" in names
    assert not [name for name in names if name.endswith((".pyc", ".pyx", ".c"))]
    assert len(names) == len(set(names))


def test_pure_python_kernel_works_from_the_zip(tmp_path):
    code = shipping.build_code(str(tmp_path), kernel=False)
    with zipfile.ZipFile(code) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    program = (
        "import ottla, ottla.client.blocking.arrow_read, ottla.client.blocking.arrow_write; "
        "import ottla.records.kernel as kernel; "
        "print(kernel.COMPILED, '.zip' in ottla.__file__)"
    )
    assert bare_python(program, code, *install_directories("pyarrow")) == "False True"


def install_directories(*names: str) -> list[str]:
    return [str(shipping.distributions([name])[name].locate_file("")) for name in names]


def test_python_files_are_added_to_the_code(tmp_path):
    steps = tmp_path / "my_steps.py"
    steps.write_text("ANSWER = 42\n")
    code = shipping.build_code(str(tmp_path / "."), [str(steps)])
    assert bare_python("import my_steps; print(my_steps.ANSWER)", code) == "42"


def test_archives_are_cached_by_content(tmp_path):
    cache = str(tmp_path)
    first = shipping.build_code(cache)
    before = os.stat(first).st_mtime_ns
    assert shipping.build_code(cache) == first
    assert os.stat(first).st_mtime_ns == before
    steps = tmp_path / "steps.py"
    steps.write_text("A = 1")
    second = shipping.build_code(cache, [str(steps)])
    assert second != first
    steps.write_text("A = 2")
    assert shipping.build_code(cache, [str(steps)]) != second


def test_old_archives_are_removed(tmp_path):
    steps = tmp_path / "steps.py"
    for number in range(6):
        steps.write_text(f"A = {number}")
        newest = shipping.build_code(str(tmp_path), [str(steps)])
    kept = [name for name in os.listdir(tmp_path) if name.endswith(".zip")]
    assert len(kept) == shipping.ARCHIVES_KEPT
    assert os.path.basename(newest) in kept


def test_dependencies_are_distributions_without_tests(tmp_path):
    path = shipping.build_dependencies(str(tmp_path), ["cramjam", "crc32c", "no-such-thing"])
    with tarfile.open(path) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert not [name for name in names if "tests/" in name or name.startswith(("..", "/"))]
    program = "import cramjam, crc32c; print(crc32c.crc32c(b'123456789') == 0xE3069283, cramjam.__file__)"
    said = bare_python(program, str(tmp_path / "unpacked"))
    assert said.startswith(f"True {tmp_path}")
    assert sys.implementation.cache_tag in os.path.basename(path)


def test_requirements_are_followed():
    found = shipping.distributions(["deltalake"])
    assert {"deltalake", "arro3-core", "deprecated", "wrapt"} <= set(found)
    assert not {"pandas", "pyarrow"} & set(found)


def test_excluded_files_of_pyarrow():
    members = dict(shipping.dependency_members(shipping.distributions(["pyarrow"])["pyarrow"]))
    assert "pyarrow/lib.pyx" not in members
    assert any(name.startswith("pyarrow/libarrow.so") for name in members)
    assert any(name.startswith("pyarrow/_parquet.") for name in members)
    assert not [name for name in members if "/include/" in name or "/tests/" in name]


def test_failure_leaves_no_partial_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(
        shipping.zipfile.ZipFile, "writestr", lambda *_: (_ for _ in ()).throw(OSError("full"))
    )
    with pytest.raises(OSError, match="full"):
        shipping.build_code(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_nothing_and_invalid_modes(tmp_path):
    assert build_shipment("nothing", cache=str(tmp_path)) == Shipment(None, None)
    assert Shipment(None, None).python_path() == ""
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="unknown ship mode 'some'"):
        build_shipment("some", cache=str(tmp_path))
