"""CRC-32C, the checksum of record batches, from the `crc32c` package.

The package's `__init__` looks up its version through importlib.metadata, which costs more than the rest of
the broker's start. So the extension module is loaded directly, and the package only if that fails.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from types import ModuleType


class _Crc32c(Protocol):
    def __call__(self, data: bytes | bytearray | memoryview, crc: int = 0, /) -> int: ...


def _load_extension() -> ModuleType | None:
    """Find crc32c/_crc32c*.so on the path without importing the package around it."""
    from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder

    package = PathFinder.find_spec("crc32c")
    if package is None or not package.submodule_search_locations:
        return None
    for folder in package.submodule_search_locations:
        for suffix in EXTENSION_SUFFIXES:
            path = f"{folder}/_crc32c{suffix}"
            spec = ModuleSpec("crc32c._crc32c", ExtensionFileLoader("crc32c._crc32c", path), origin=path)
            try:
                module = spec.loader.create_module(spec) if spec.loader else None
                if module is not None and spec.loader is not None:
                    spec.loader.exec_module(module)
                    return module
            except ImportError:
                continue
    return None


def _find() -> _Crc32c:
    loaded = sys.modules.get("crc32c._crc32c") or _load_extension()
    if loaded is None:
        import crc32c as package

        return cast("_Crc32c", package.crc32c)
    return cast("_Crc32c", loaded.crc32c)


crc32c: _Crc32c = _find()
