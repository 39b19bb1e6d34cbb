"""The rules that no linter knows: file and function length, no stray markers, nothing of the machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
GENERATED = "src/ottla/protocol/messages/"
FORBIDDEN = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "unfinished business: do it, or say it in an issue"),
    (re.compile(r"(?<![\w.])/(home|root|work|Users)/[a-z]"), "absolute path of one machine"),
    (re.compile(r"\bbreakpoint\(\)|\bpdb\.set_trace"), "debugger left in"),
]


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def long_functions(tree: ast.AST) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                found.append(
                    (node.lineno, f"function {node.name} has {lines} lines (limit {FUNCTION_LINES_MAX})")
                )
    return found


def problems_of(path: Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found: list[tuple[int, str]] = []
    if name != "tools/tidy.py":
        for number, line in enumerate(lines, 1):
            found += [(number, reason) for pattern, reason in FORBIDDEN if pattern.search(line)]
    if text and not text.endswith("\n"):
        found.append((len(lines), "no newline at end of file"))
    if name.endswith((".py", ".pyx")) and not name.startswith(GENERATED):
        if len(lines) > FILE_LINES_MAX:
            found.append((1, f"{len(lines)} lines (limit {FILE_LINES_MAX}): which two topics does it hold?"))
        if name.endswith(".py"):
            found += long_functions(ast.parse(text))
            if name.startswith("src/") and lines and not text.lstrip().startswith(('"""', "#")):
                found.append((1, "no module docstring"))
    return [f"{name}:{number}: {reason}" for number, reason in found]


def main() -> int:
    suffixes = {".py", ".pyx", ".pxi", ".md", ".toml", ".txt", ".yml", ".yaml", ""}
    problems = [p for path in tracked_files() if path.suffix in suffixes for p in problems_of(path)]
    print("\n".join(problems) or "tidy")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
