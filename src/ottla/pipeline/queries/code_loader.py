"""Imports the user code of a pipeline so that executors can run it without a copy of the files."""

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
    """Import `file.py:name` or `module:name`. Raises ImportError."""
    reference = parse_code_reference(text)
    if reference is None:
        raise ImportError(f"'{text}': expected file.py:name or module:name")
    module = _load_file(reference, directory) if reference.is_file else _load_module(reference, directory)
    try:
        return getattr(module, reference.name)
    except AttributeError:
        raise ImportError(f"{reference.module} has no '{reference.name}'") from None


def _load_file(reference: CodeReference, directory: str) -> ModuleType:
    path = os.path.abspath(os.path.join(directory, reference.module))
    digest = hashlib.sha1(path.encode(), usedforsecurity=False).hexdigest()[:8]
    stem = os.path.splitext(os.path.basename(path))[0]
    name = f"ottla_step_{''.join(c if c.isalnum() else '_' for c in stem)}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise ImportError(f"no such file: {reference.module}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _pickle_by_value(module)
    return module


def _load_module(reference: CodeReference, directory: str) -> ModuleType:
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module = importlib.import_module(reference.module)
    # Modules next to the pipeline file are not installed on executors; installed modules may be.
    origin = getattr(module, "__file__", None) or ""
    if os.path.dirname(os.path.abspath(origin)).startswith(directory):
        _pickle_by_value(module)
    return module


def _pickle_by_value(module: ModuleType) -> None:
    """Make cloudpickle send the code of this module to executors, not a name to import there."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
