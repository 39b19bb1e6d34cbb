"""Checks that no linter does: length of modules and functions, size of packages, bare tasks, stray text."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
PACKAGE_FILES_MAX = 25
# Modules above the limit, with their own limits: remove an entry when a module gets shorter, and add none.
LONG_FILES = {
    "src/ottla/client/core/transaction_api.py": 600,  # the requests of all transaction APIs
    "tests/broker/metadata/test_metadata_cluster.py": 600,
    "tests/groups/test_consumer_transcripts.py": 600,  # one transcript per case
    "tests/spark/test_spark_sink_failures.py": 600,  # its tests share an expensive Spark session
    "tests/storage/test_partition_log.py": 600,
    "tests/support/quorum/raft_cluster.py": 600,
    "tests/transactions/test_txn_transcripts.py": 600,  # one transcript per case
}
# Packages above the limit.
LARGE_PACKAGES = {
    "src/ottla/protocol/messages": 1000,  # generated
}
# A long-lived process: its tasks are started in one module.
SUPERVISED = "src/ottla/broker/"
SUPERVISOR = "src/ottla/broker/background.py"
TASK_STARTERS = {"create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe"}
GENERATED = "src/ottla/protocol/messages/"
FORBIDDEN = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "unfinished work: do it, or file an issue"),
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


def bare_tasks(tree: ast.AST) -> list[tuple[int, str]]:
    """Tasks whose failure nobody would notice."""
    return [
        (node.lineno, f"{name}: start tasks with ottla.broker.background, which notices their failure")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
        and (name := node.attr if isinstance(node, ast.Attribute) else node.id) in TASK_STARTERS
    ]


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
        limit = LONG_FILES.get(name, FILE_LINES_MAX)
        if len(lines) > limit:
            found.append((1, f"{len(lines)} lines (limit {limit}): split it by topic"))
        if name.endswith(".py"):
            tree = ast.parse(text)
            found += long_functions(tree)
            if name.startswith(SUPERVISED) and name != SUPERVISOR:
                found += bare_tasks(tree)
            if name.startswith("src/") and lines and not text.lstrip().startswith(('"""', "#")):
                found.append((1, "no module docstring"))
    return [f"{name}:{number}: {reason}" for number, reason in found]


def large_packages(paths: list[Path]) -> list[str]:
    """Packages with too many modules at one level."""
    modules = Counter(path.parent.relative_to(ROOT).as_posix() for path in paths if path.suffix == ".py")
    return [
        f"{name}: {count} modules at one level (limit {limit}): group them into packages"
        for name, count in sorted(modules.items())
        if count > (limit := LARGE_PACKAGES.get(name, PACKAGE_FILES_MAX))
    ]


def main() -> int:
    suffixes = {".py", ".pyx", ".pxi", ".md", ".toml", ".txt", ".yml", ".yaml", ""}
    paths = tracked_files()
    problems = [p for path in paths if path.suffix in suffixes for p in problems_of(path)]
    problems += large_packages(paths)
    print("\n".join(problems) or "tidy")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
