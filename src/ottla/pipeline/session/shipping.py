"""What executors need of this installation, as files that Spark carries to them.

Two archives, unpacked by Spark into the working directory of every executor and found there by PYTHONPATH:

    code    a zip of ottla, pyspark_ottla and pyspark_ottla_lake, with the compiled kernel if there is one
    needs   a tar.gz of what these import (pyarrow, cramjam, deltalake ...), as it is installed here

Executors bring Spark and a Python of the same minor version, on the same kind of machine; where they have the
needs installed, the code alone is enough. Without the compiled kernel its pure twin does the work. Archives
are kept in the user's cache by what is in them, for packing takes seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PACKAGES = ("ottla", "pyspark_ottla", "pyspark_ottla_lake")
# What reading, writing and SQL take on an executor; then what some pipelines take besides, which is larger.
BASE_DEPENDENCIES = ("pyarrow", "cramjam", "crc32c", "pyyaml")
DEPENDENCIES = (*BASE_DEPENDENCIES, "deltalake", "fastavro", "pandas")
CODE_DIRECTORY = "ottla_code"
DEPENDENCIES_DIRECTORY = "ottla_needs"
SHIP_MODES = ("nothing", "code", "all")
ARCHIVES_KEPT = 3

# Sources of compiled modules, tests, and the one large library that nobody here uses.
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|tests|include|includes|src)(/|$)|\.(py[cxo]|pxd|pxi|c|h|a)$|(^|/)(libarrow_|_)flight\b"
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Shipment(NamedTuple):
    """Files for the executors; None where they have it."""

    code: str | None
    needs: str | None

    def archives(self) -> list[str]:
        """As `spark.archives` wants them: the file, and the directory that it becomes."""
        pairs = ((self.code, CODE_DIRECTORY), (self.needs, DEPENDENCIES_DIRECTORY))
        return [f"{path}#{directory}" for path, directory in pairs if path is not None]

    def python_path(self) -> str:
        """Where executors find it, seen from their working directory."""
        pairs = ((self.code, CODE_DIRECTORY), (self.needs, DEPENDENCIES_DIRECTORY))
        return os.pathsep.join(directory for path, directory in pairs if path is not None)


def build_shipment(
    ship: str = "all",
    *,
    files: Sequence[str] = (),
    needs: Sequence[str] = DEPENDENCIES,
    kernel: bool = True,
    cache: str | None = None,
) -> Shipment:
    """Pack what `ship` says: "nothing", "code" or "all". `files` are Python files that go with the code.

    Raises ValueError for another word, OSError if the cache cannot be written.
    """
    if ship not in SHIP_MODES:
        raise ValueError(f"nothing is shipped as {ship!r}: expected {', '.join(SHIP_MODES)}")
    directory = cache or cache_directory()
    if ship == "nothing":
        return Shipment(None, None)
    os.makedirs(directory, exist_ok=True)
    code = build_code(directory, files, kernel=kernel)
    return Shipment(code, build_dependencies(directory, needs) if ship == "all" else None)


def cache_directory() -> str:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "ottla", "shipping")


def build_code(directory: str, files: Sequence[str] = (), *, kernel: bool = True) -> str:
    """A zip that Python can import from, in a directory or as it is (then without the kernel)."""
    members = dict(code_members(kernel=kernel))
    for path in files:
        members[os.path.basename(path)] = os.path.abspath(path)
    digest = hashlib.sha256()
    for name, path in members.items():
        digest.update(f"{name}\0".encode())
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    target = os.path.join(directory, f"ottla-code-{digest.hexdigest()[:16]}.zip")
    if not os.path.exists(target):
        with (
            _finished_as(target) as unfinished,
            zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, path in members.items():
                with open(path, "rb") as file:
                    # The same code is the same archive, whenever it was checked out.
                    archive.writestr(zipfile.ZipInfo(name, _EPOCH), file.read(), zipfile.ZIP_DEFLATED)
        _forget_old(directory, "ottla-code-")
    return target


def code_members(*, kernel: bool = True) -> Iterator[tuple[str, str]]:
    """Name in the archive and path here, of every module and data file of our packages, in order."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            continue
        root = next(iter(spec.submodule_search_locations))
        for where, directories, names in os.walk(root):
            directories.sort()
            for name in sorted(names):
                path = os.path.join(where, name)
                member = f"{package}/{os.path.relpath(path, root)}".replace(os.sep, "/")
                if _LEFT_OUT.search(member) or (name.endswith(".so") and not kernel):
                    continue
                yield member, path


def build_dependencies(directory: str, needs: Sequence[str] = DEPENDENCIES) -> str:
    """A tar.gz of installed distributions and what they require."""
    found = distributions(needs)
    versions = [f"{name} {distribution.version}" for name, distribution in found.items()]
    tag = f"{sys.implementation.cache_tag}-{platform.system()}-{platform.machine()}"
    digest = hashlib.sha256("\n".join([tag, *versions]).encode()).hexdigest()[:16]
    target = os.path.join(directory, f"ottla-needs-{tag}-{digest}.tar.gz")
    if not os.path.exists(target):
        # Level 1: three times as fast as the default, and little larger for machine code.
        with _finished_as(target) as unfinished, tarfile.open(unfinished, "w:gz", compresslevel=1) as archive:
            for distribution in found.values():
                for name, path in dependency_members(distribution):
                    archive.add(path, name, recursive=False)
        _forget_old(directory, "ottla-needs-")
    return target


def distributions(names: Sequence[str]) -> dict[str, importlib.metadata.Distribution]:
    """Those that are installed here, with what they require, by name; extras are not followed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0).lower().replace("_", "-")
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # Not asked for by this machine, or by this installation.
            continue
        found[name] = distribution
        for requirement in distribution.requires or ():
            match = re.match(r"[A-Za-z0-9._-]+", requirement)
            if match and "extra" not in requirement.partition(";")[2]:
                waiting.append(match[0])
    return dict(sorted(found.items()))


def dependency_members(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, str]]:
    """Name in the archive and path here. Scripts, which live outside of site-packages, stay here."""
    for file in distribution.files or ():
        name = file.as_posix()
        path = str(distribution.locate_file(file))
        if name.startswith("..") or _LEFT_OUT.search(name) or not os.path.isfile(path):
            continue
        yield name, path


@contextlib.contextmanager
def _finished_as(target: str) -> Iterator[str]:
    """A name to write to; it becomes the target when everything is written, so nobody sees half of it."""
    unfinished = f"{target}.{os.getpid()}"
    try:
        yield unfinished
        os.replace(unfinished, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)


def _forget_old(directory: str, prefix: str) -> None:
    """Keep the newest few: development makes one for every change."""
    paths = [os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(prefix)]
    for path in sorted(paths, key=os.path.getmtime, reverse=True)[ARCHIVES_KEPT:]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
