"""Static look-up of user code: validation parses the source and does not run it."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys

from ottla.pipeline.definition.document import suggestion
from ottla.pipeline.definition.syntax import CodeReference


def find_code_problem(reference: CodeReference, directory: str) -> str | None:
    """Return what is wrong with a reference to code, or None."""
    path = source_path(reference, directory)
    if path is None:
        return f"no such {'file' if reference.is_file else 'module'}: {reference.module}"
    if not path.endswith(".py"):
        return None  # a compiled module is checked when it is imported
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read(), path)
    except OSError as error:
        return f"cannot read {reference.module}: {error.strerror}"
    except SyntaxError as error:
        return f"{reference.module}, line {error.lineno}: {error.msg}"
    names = _defined(tree)
    if reference.name in names or "*" in names:
        return None
    hint = suggestion(reference.name, names)
    return f"{reference.module} has no '{reference.name}'" + (f"; {hint}" if hint else "")


def source_path(reference: CodeReference, directory: str) -> str | None:
    if reference.is_file:
        path = os.path.join(directory, reference.module)
        return path if os.path.isfile(path) else None
    near = os.path.join(directory, *reference.module.split("."))
    for path in (f"{near}.py", os.path.join(near, "__init__.py")):
        if os.path.isfile(path):
            return path
    # find_spec of a dotted name would import the parent package, so only the first part is looked up.
    first = reference.module.split(".")[0]
    if first in sys.builtin_module_names:
        return first
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if "." not in reference.module:
        return spec.origin
    for base in spec.submodule_search_locations or ():
        inside = os.path.join(base, *reference.module.split(".")[1:])
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
