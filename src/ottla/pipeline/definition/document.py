"""YAML nodes with their positions, so that every problem is reported with line and column."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import yaml

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")


class Mark(NamedTuple):
    """A position in the file; lines and columns count from 1, as in editors."""

    line: int
    column: int


class Problem(NamedTuple):
    """An error or warning and its position. Warnings do not prevent a pipeline from running."""

    mark: Mark
    message: str
    is_warning: bool = False

    def shown(self, path: str) -> str:
        kind = "warning" if self.is_warning else "error"
        return f"{path}:{self.mark.line}:{self.mark.column}: {kind}: {self.message}"


class Text(str):
    """A scalar of the file with its position; `rows` has the position of each of its lines."""

    __slots__ = ("mark", "rows")
    mark: Mark
    rows: Sequence[Mark]

    def position(self, offset: int) -> Mark:
        """Return the position in the file of the character at an offset of the text."""
        before = self[:offset]
        row = before.count("\n")
        column = offset - (before.rfind("\n") + 1)
        if row < len(self.rows):
            return Mark(self.rows[row].line, self.rows[row].column + column)
        return self.mark


def text_at(value: str, mark: Mark, rows: Sequence[Mark] = ()) -> Text:
    found = Text(value)
    found.mark = mark
    found.rows = rows or (mark,)
    return found


class Problems:
    """Collects all problems of a file."""

    def __init__(self) -> None:
        self._found: dict[Problem, None] = {}

    def add(self, mark: Mark, message: str) -> None:
        self._found[Problem(mark, message)] = None

    def warn(self, mark: Mark, message: str) -> None:
        self._found[Problem(mark, message, True)] = None

    def __iter__(self) -> Iterator[Problem]:
        return iter(sorted(self._found))

    @property
    def errors(self) -> list[Problem]:
        return [problem for problem in self if not problem.is_warning]


class Document:
    """One file: its lines, its variables and its problems."""

    def __init__(self, text: str, settings: Mapping[str, str], problems: Problems) -> None:
        self.lines = text.splitlines()
        self.problems = problems
        self.variables: dict[str, str] = {}
        self._settings = dict(settings)
        self.used: dict[str, None] = {}

    def define(self, variables: Mapping[str, str], mark: Mark) -> None:
        """Define the variables of the file; values from `--set` override them."""
        self.variables = dict(variables) | {k: v for k, v in self._settings.items() if k in variables}
        for name in self._settings:
            if name not in variables:
                hint = suggestion(name, variables) or "declare it under 'variables'"
                self.problems.add(mark, f"--set {name}=...: unknown variable '{name}'; {hint}")

    def text(self, node: yaml.ScalarNode) -> Text:
        """Return a scalar with its variables substituted."""
        mark = mark_of(node)

        def substitute(found: re.Match[str]) -> str:
            name = found[1]
            self.used[name] = None
            if name not in self.variables:
                hint = suggestion(name, self.variables) or "declare it under 'variables'"
                self.problems.add(mark, f"unknown variable ${{{name}}}; {hint}")
                return ""
            return self.variables[name]

        value = VARIABLE.sub(substitute, node.value)
        return text_at(value, mark, self._rows(node, value))

    def _rows(self, node: yaml.ScalarNode, value: str) -> list[Mark]:
        """Return the positions of a scalar's lines: all for literal block scalars, else only the first."""
        if node.style != "|":
            quoted = 1 if node.style in ("'", '"') else 0
            return [Mark(node.start_mark.line + 1, node.start_mark.column + 1 + quoted)]
        first = node.start_mark.line + 1
        texts = self.lines[first : first + value.count("\n") + 1]
        indent = next((len(line) - len(line.lstrip(" ")) for line in texts if line.strip()), 0)
        return [Mark(first + 1 + number, indent + 1) for number in range(value.count("\n") + 1)]


def mark_of(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?", or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean '{near[0]}'?" if near else ""


def parse(text: str, problems: Problems) -> yaml.Node | None:
    """Parse the file. Syntax errors are added to the problems."""
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(at.line + 1, at.column + 1) if at is not None else Mark(1, 1)
        problems.add(mark, f"invalid YAML: {error.problem or error.context}")
        return None
    except yaml.YAMLError as error:
        problems.add(Mark(1, 1), f"invalid YAML: {error}")
        return None
    if node is None:
        problems.add(Mark(1, 1), "the file is empty; docs/PIPELINES.md describes the format")
    return node


class Section:
    """A mapping of the file. An unknown key is a problem with a suggestion."""

    def __init__(self, document: Document, node: yaml.Node, what: str, known: Sequence[str] | None) -> None:
        self.document = document
        self.problems = document.problems
        self.what = what
        self.mark = mark_of(node)
        self.nodes: dict[str, yaml.Node] = {}
        self.names: dict[str, Text] = {}
        if not isinstance(node, yaml.MappingNode):
            if not is_empty(node):
                self.problems.add(self.mark, f"{what}: expected a mapping (key: value)")
            return
        for key, value in node.value:
            self._add(key, value, known)

    def _add(self, key: yaml.Node, value: yaml.Node, known: Sequence[str] | None) -> None:
        if not isinstance(key, yaml.ScalarNode):
            self.problems.add(mark_of(key), f"{self.what}: expected a plain string as key")
            return
        name = text_at(key.value, mark_of(key))
        if name in self.nodes:
            first = self.names[name].mark.line
            self.problems.add(name.mark, f"{self.what}: duplicate key '{name}'; first on line {first}")
            return
        if known is not None and name not in known:
            hint = suggestion(name, known) or f"expected {', '.join(known)}"
            self.problems.add(name.mark, f"{self.what}: unknown key '{name}'; {hint}")
            return
        self.nodes[str(name)] = value
        self.names[str(name)] = name

    def __contains__(self, name: str) -> bool:
        return name in self.nodes and not is_empty(self.nodes[name])

    def mark_at(self, name: str) -> Mark:
        return mark_of(self.nodes[name]) if name in self.nodes else self.mark

    def text(self, name: str, *, required: bool = False) -> Text | None:
        """Return a scalar value, or None if the key is absent."""
        if name not in self:
            if required:
                self.problems.add(self.mark, f"{self.what}: '{name}' is missing")
            return None
        node = self.nodes[name]
        if not isinstance(node, yaml.ScalarNode):
            self.problems.add(mark_of(node), f"{self.what}: '{name}' must be a single value")
            return None
        return self.document.text(node)

    def choice(self, name: str, choices: Sequence[str], default: str) -> Text:
        value = self.text(name)
        if value is None:
            return text_at(default, self.mark_at(name))
        if value not in choices:
            hint = suggestion(value, choices)
            text = f"{self.what}: '{name}' is '{value}', expected {' or '.join(choices)}"
            self.problems.add(value.mark, f"{text}; {hint}" if hint else text)
            return text_at(default, value.mark)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in TRUE + FALSE:
            self.problems.add(value.mark, f"{self.what}: '{name}' is '{value}', expected true or false")
        return value.lower() in TRUE

    def number(self, name: str, *, at_least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or int(value) < at_least:
            self.problems.add(
                value.mark, f"{self.what}: '{name}' is '{value}', expected a number of at least {at_least}"
            )
            return None
        return int(value)

    def texts(self, name: str, *, required: bool = False) -> tuple[Text, ...]:
        """Return one value or a list of values."""
        if name not in self:
            if required:
                self.problems.add(self.mark, f"{self.what}: '{name}' is missing")
            return ()
        node = self.nodes[name]
        if isinstance(node, yaml.ScalarNode):
            return (self.document.text(node),)
        if isinstance(node, yaml.SequenceNode) and all(isinstance(n, yaml.ScalarNode) for n in node.value):
            return tuple(self.document.text(each) for each in node.value)
        self.problems.add(mark_of(node), f"{self.what}: '{name}' must be a value or a list of values")
        return ()

    def pairs(self, name: str) -> dict[str, str]:
        """Return a mapping of single values, such as options that are passed on to Spark."""
        if name not in self:
            return {}
        section = Section(self.document, self.nodes[name], f"{self.what}: {name}", None)
        found = {}
        for key in section.nodes:
            value = section.text(key)
            if value is not None:
                found[key] = str(value)
        return found


def is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
