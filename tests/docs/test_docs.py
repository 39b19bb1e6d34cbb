"""The documentation matches the repository: links, file names, make targets, modules, names and versions."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ottla

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")]
    if path.name != "BENCHMARKS.md"  # written by a tool
)
# Pages in which every file name in backticks must exist.
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "docs/ARCHITECTURE.md", *sorted(ROOT.glob("docs/decisions/*.md"))]
# File names in the guides are relative to one of these.
BASES = [ROOT, ROOT / "src", ROOT / "src/ottla", ROOT / "src/ottla/broker", ROOT / "docs"]
# Files that a broker or a build writes, and files of other projects.
ELSEWHERE = {"server.properties", "meta.properties", "kafka-dump-log.sh", "kafka-transactions.sh"}

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"[\w./-]+\.(py|pyx|md|toml|txt|json|ya?ml|sh|properties|java|c)|[\w.-]+(/[\w.-]+)*/")
MODULE = re.compile(r"\b(?:ottla|pyspark_ottla|pyspark_ottla_lake)(?:\.[A-Za-z_]\w*)+")
MAKE = re.compile(r"(?:`|^ {4}|^run: )make ([a-z][a-z-]*)", re.MULTILINE)


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def anchors(path: Path) -> set[str]:
    """The anchors of a page: its headings as GitHub and Zensical write them."""
    text = FENCE.sub("", path.read_text())
    found = set()
    for line in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)).strip().lower()
        found.add(plain.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", [path for path in PAGES if path.is_relative_to(ROOT / "docs")], ids=page_id)
def test_links_of_the_site_stay_inside_of_it(page: Path) -> None:
    names = [
        link.partition("#")[0] for link in LINK.findall(FENCE.sub("", page.read_text())) if "://" not in link
    ]
    assert [name for name in names if not (page.parent / name).resolve().is_relative_to(ROOT / "docs")] == []


@pytest.mark.parametrize("page", GUIDES, ids=page_id)
def test_files_that_are_mentioned_exist(page: Path) -> None:
    missing = []
    for code in CODE.findall(FENCE.sub("", page.read_text())):
        if not FILE_NAME.fullmatch(code) or code in ELSEWHERE:
            continue
        if not any((base / code).exists() for base in BASES):
            missing.append(code)
    assert not missing


def test_files_and_classes_in_the_diagrams_exist() -> None:
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    diagrams = "\n".join(re.findall(r"^ {4}.*$", text, re.MULTILINE))
    bases = [*BASES, ROOT / "src/ottla/storage", ROOT / "src/pyspark_ottla"]
    files = re.findall(r"\b[\w/]+\.py\b", diagrams)
    assert [name for name in files if not any((base / name).exists() for base in bases)] == []
    source = "\n".join(path.read_text() for path in ROOT.glob("src/**/*.py"))
    names = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", diagrams)) - {"SipHash"}
    assert {name for name in names if not re.search(rf"\b{name}(?:Request)?\b", source)} == set()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_modules_that_are_mentioned_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        pytest.skip("the changelog names modules of its time")
    missing = []
    for name in set(MODULE.findall(page.read_text())):
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            base = ROOT / "src" / "/".join(parts[:length])
            source = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            if source.exists():
                rest = parts[length:]
                if rest and rest[0] not in source.read_text():
                    missing.append(name)
                break
    assert not missing


def test_make_targets_that_are_mentioned_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    mentioned = {name for page in PAGES for name in MAKE.findall(page.read_text())}
    mentioned |= set(re.findall(r"run: make ([a-z-]+)", workflow))
    assert mentioned <= targets


@pytest.mark.parametrize("package", ["ottla.client", "ottla.testing"])
def test_the_reference_has_every_public_name(package: str) -> None:
    page = ROOT / "docs/reference" / f"{package.rpartition('.')[2]}.md"
    listed = set(re.findall(rf"^::: {re.escape(package)}\.(\w+)$", page.read_text(), re.MULTILINE))
    public = set(importlib.import_module(package).__all__)
    assert listed - {"pytest_plugin"} == public


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # Changes since then are under "Unreleased".
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert project["version"] == ottla.__version__ == newest[1]


def test_every_decision_is_listed() -> None:
    directory = ROOT / "docs/decisions"
    records = sorted(path.name for path in directory.glob("0*.md"))
    assert re.findall(r"\]\((0\S+\.md)\)", (directory / "index.md").read_text()) == records
    assert [int(name[:4]) for name in records] == list(range(1, len(records) + 1))


def test_no_file_names_a_package_registry() -> None:
    registry = re.compile(r"pypi\.org|pythonhosted|npmjs|repo\d?\.maven\.org|index-url", re.IGNORECASE)
    names = [
        "pyproject.toml",
        "constraints.txt",
        "Makefile",
        ".pre-commit-config.yaml",
        ".github/workflows/ci.yml",
    ]
    files = [*PAGES, *(ROOT / name for name in names)]
    assert [page_id(path) for path in files if registry.search(path.read_text())] == []


def test_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "tools/docs_pages.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
