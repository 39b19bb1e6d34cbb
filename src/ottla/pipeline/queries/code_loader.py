"""Loads the functions and classes that a file names, so that executors run them without having a copy."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from ottla.pipeline.definition.syntax import CodeReference, parse_code_reference


def load_code(text: str, directory: str) -> Any:
    """`file.py:name` or `module:name`. Raises ImportError with a sentence."""
    place = parse_code_reference(text)
    if place is None:
        raise ImportError(f"'{text}': expected file.py:name or module:name")
    module = _load_file(place, directory) if place.is_file else _load_module(place, directory)
    try:
        return getattr(module, place.name)
    except AttributeError:
        raise ImportError(f"{place.module} has no '{place.name}'") from None


def _load_file(place: CodeReference, directory: str) -> ModuleType:
    path = os.path.abspath(os.path.join(directory, place.module))
    digest = hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest()[:8]
    stem = os.path.splitext(os.path.basename(path))[0]
    name = f"ottla_step_{''.join(c if c.isalnum() else '_' for c in stem)}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise ImportError(f"there is no file {place.module}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _send_by_value(module)
    return module


def _load_module(place: CodeReference, directory: str) -> ModuleType:
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module = importlib.import_module(place.module)
    # What lies beside the file is not installed on the executors; what is installed here may be there.
    origin = getattr(module, "__file__", None) or ""
    if os.path.dirname(os.path.abspath(origin)).startswith(directory):
        _send_by_value(module)
    return module


def _send_by_value(module: ModuleType) -> None:
    """Let functions of this module travel to executors as a whole, not as a name to import there."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
