"""Archives of the packages that executors need, which Spark ships to them.

Spark unpacks two archives into the working directory of every executor, where PYTHONPATH finds them:

    code          a zip of ottla, pyspark_ottla and pyspark_ottla_lake, with the compiled kernel if there is
    one dependencies  a tar.gz of what these import (pyarrow, cramjam, deltalake ...), as installed here

Executors must have Spark, the same minor version of Python and the same platform. If they have the
dependencies installed, the code is sufficient. Without the compiled kernel the pure Python version is used.
Archives are cached by content, because packing takes seconds.
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
# What every pipeline needs on executors, and what only some need, which is larger.
BASE_DEPENDENCIES = ("pyarrow", "cramjam", "crc32c", "pyyaml")
DEPENDENCIES = (*BASE_DEPENDENCIES, "deltalake", "fastavro", "pandas")
CODE_DIRECTORY = "ottla_code"
DEPENDENCIES_DIRECTORY = "ottla_dependencies"
SHIP_MODES = ("nothing", "code", "all")
ARCHIVES_KEPT = 3

# Sources of compiled modules, tests, and Arrow Flight, which is large and not used.
_EXCLUDED = re.compile(
    r"(^|/)(__pycache__|tests|include|includes|src)(/|$)|\.(py[cxo]|pxd|pxi|c|h|a)$|(^|/)(libarrow_|_)flight\b"
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Shipment(NamedTuple):
    """The archives to ship; None if executors have the content."""

    code: str | None
    dependencies: str | None

    def archives(self) -> list[str]:
        """Return the archives in the syntax of `spark.archives`: file#directory."""
        pairs = ((self.code, CODE_DIRECTORY), (self.dependencies, DEPENDENCIES_DIRECTORY))
        return [f"{path}#{directory}" for path, directory in pairs if path is not None]

    def python_path(self) -> str:
        """Return the PYTHONPATH of executors, relative to their working directory."""
        pairs = ((self.code, CODE_DIRECTORY), (self.dependencies, DEPENDENCIES_DIRECTORY))
        return os.pathsep.join(directory for path, directory in pairs if path is not None)


def build_shipment(
    ship: str = "all",
    *,
    files: Sequence[str] = (),
    dependencies: Sequence[str] = DEPENDENCIES,
    kernel: bool = True,
    cache: str | None = None,
) -> Shipment:
    """Build the archives for "nothing", "code" or "all". `files` are Python files to add to the code.

    Raises ValueError for another mode, OSError if the cache cannot be written.
    """
    if ship not in SHIP_MODES:
        raise ValueError(f"unknown ship mode {ship!r}: expected {', '.join(SHIP_MODES)}")
    directory = cache or cache_directory()
    if ship == "nothing":
        return Shipment(None, None)
    os.makedirs(directory, exist_ok=True)
    code = build_code(directory, files, kernel=kernel)
    return Shipment(code, build_dependencies(directory, dependencies) if ship == "all" else None)


def cache_directory() -> str:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "ottla", "shipping")


def build_code(directory: str, files: Sequence[str] = (), *, kernel: bool = True) -> str:
    """Build a zip of the packages that Python can import from, unpacked or (without the kernel) directly."""
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
            _atomic_path(target) as unfinished,
            zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, path in members.items():
                with open(path, "rb") as file:
                    # A fixed date: the same code always makes the same archive.
                    archive.writestr(zipfile.ZipInfo(name, _EPOCH), file.read(), zipfile.ZIP_DEFLATED)
        _remove_old(directory, "ottla-code-")
    return target


def code_members(*, kernel: bool = True) -> Iterator[tuple[str, str]]:
    """Yield name in the archive and local path of every file of the packages, in order."""
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
                if _EXCLUDED.search(member) or (name.endswith(".so") and not kernel):
                    continue
                yield member, path


def build_dependencies(directory: str, dependencies: Sequence[str] = DEPENDENCIES) -> str:
    """Build a tar.gz of installed distributions and their requirements."""
    found = distributions(dependencies)
    versions = [f"{name} {distribution.version}" for name, distribution in found.items()]
    tag = f"{sys.implementation.cache_tag}-{platform.system()}-{platform.machine()}"
    digest = hashlib.sha256("\n".join([tag, *versions]).encode()).hexdigest()[:16]
    target = os.path.join(directory, f"ottla-dependencies-{tag}-{digest}.tar.gz")
    if not os.path.exists(target):
        # Level 1 is three times as fast as the default, and machine code gets little larger.
        with _atomic_path(target) as unfinished, tarfile.open(unfinished, "w:gz", compresslevel=1) as archive:
            for distribution in found.values():
                for name, path in dependency_members(distribution):
                    archive.add(path, name, recursive=False)
        _remove_old(directory, "ottla-dependencies-")
    return target


def distributions(names: Sequence[str]) -> dict[str, importlib.metadata.Distribution]:
    """Return installed distributions and their requirements by name; extras are not followed."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0).lower().replace("_", "-")
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            # Not required on this platform, or not installed.
            continue
        found[name] = distribution
        for requirement in distribution.requires or ():
            match = re.match(r"[A-Za-z0-9._-]+", requirement)
            if match and "extra" not in requirement.partition(";")[2]:
                waiting.append(match[0])
    return dict(sorted(found.items()))


def dependency_members(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, str]]:
    """Yield name in the archive and local path. Scripts, which are outside site-packages, are left out."""
    for file in distribution.files or ():
        name = file.as_posix()
        path = str(distribution.locate_file(file))
        if name.startswith("..") or _EXCLUDED.search(name) or not os.path.isfile(path):
            continue
        yield name, path


@contextlib.contextmanager
def _atomic_path(target: str) -> Iterator[str]:
    """Yield a temporary path that is renamed to the target, so that no other process sees a partial file."""
    unfinished = f"{target}.{os.getpid()}"
    try:
        yield unfinished
        os.replace(unfinished, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)


def _remove_old(directory: str, prefix: str) -> None:
    """Remove all but the newest archives: during development every change makes one."""
    paths = [os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(prefix)]
    for path in sorted(paths, key=os.path.getmtime, reverse=True)[ARCHIVES_KEPT:]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
