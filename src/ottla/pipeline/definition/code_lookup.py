"""Does a function exist that a file names? Looked up in its text: validation runs no code of the user's."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys

from ottla.pipeline.definition.document import suggestion
from ottla.pipeline.definition.syntax import CodeReference


def find_code_problem(place: CodeReference, directory: str) -> str | None:
    """What is wrong with a place of code, or None."""
    path = source_path(place, directory)
    if path is None:
        return f"there is no {'file' if place.is_file else 'module'} {place.module}"
    if not path.endswith(".py"):
        return None  # compiled: seen when it is imported
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read(), path)
    except OSError as error:
        return f"{place.module} cannot be read: {error.strerror}"
    except SyntaxError as error:
        return f"{place.module}, line {error.lineno}: {error.msg}"
    names = _defined(tree)
    if place.name in names or "*" in names:
        return None
    hint = suggestion(place.name, names)
    return f"{place.module} has no '{place.name}'" + (f"; {hint}" if hint else "")


def source_path(place: CodeReference, directory: str) -> str | None:
    if place.is_file:
        path = os.path.join(directory, place.module)
        return path if os.path.isfile(path) else None
    near = os.path.join(directory, *place.module.split("."))
    for path in (f"{near}.py", os.path.join(near, "__init__.py")):
        if os.path.isfile(path):
            return path
    # Of a dotted name only the first part is looked up: more would import the package.
    first = place.module.split(".")[0]
    if first in sys.builtin_module_names:
        return first
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if "." not in place.module:
        return spec.origin
    for base in spec.submodule_search_locations or ():
        inside = os.path.join(base, *place.module.split(".")[1:])
        for path in (f"{inside}.py", os.path.join(inside, "__init__.py")):
            if os.path.isfile(path):
                return path
    return None


def _defined(tree: ast.Module) -> dict[str, None]:
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] = None
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name, None) for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update((target.id, None) for target in node.targets if isinstance(target, ast.Name))
    return names
