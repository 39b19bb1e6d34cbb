"""A token scan of SQL: the tables it reads, its joins, and whether it aggregates or sorts.

Spark parses the SQL when the pipeline starts, or with `validate --deep`. The scan finds common mistakes, such
as an unknown step, without Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
  | `(?P<quoted>(?:[^`]|``)*)`
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>\d[\w.]*)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SUBQUERY_STARTS = ("SELECT", "WITH", "VALUES", "TABLE", "FROM")
_ENDS_FROM = [
    *(
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "LIMIT",
        "OFFSET",
        "WINDOW",
        "UNION",
    ),
    *("EXCEPT", "MINUS", "INTERSECT", "LATERAL", "PIVOT", "UNPIVOT", "SELECT", "QUALIFY", "ON", "USING"),
]
_AGGREGATES = [
    *(
        "COUNT",
        "SUM",
        "AVG",
        "MEAN",
        "MIN",
        "MAX",
        "MAX_BY",
        "MIN_BY",
        "FIRST",
        "LAST",
        "COLLECT_LIST",
        "STDDEV",
    ),
    *("COLLECT_SET", "APPROX_COUNT_DISTINCT", "VARIANCE", "PERCENTILE", "PERCENTILE_APPROX", "ANY_VALUE"),
    *("COUNT_IF", "BOOL_AND", "BOOL_OR"),
]
_OUTER = ("LEFT", "RIGHT", "FULL")


class TableName(NamedTuple):
    """A table in a query, its offset in the text, its join: '' (first), INNER, LEFT, RIGHT, FULL, SEMI."""

    name: str
    offset: int
    join: str


class SqlFacts(NamedTuple):
    """The result of a scan; `problem` has an offset and a message."""

    tables: Sequence[TableName]
    aggregates: bool
    distinct: bool
    sorts: bool
    problem: tuple[int, str] | None


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text if self.kind == "sign" else ""


def scan(sql: str) -> SqlFacts:
    tokens = _tokens(sql)
    words = [token.upper for token in tokens]
    tables = _tables(tokens)
    aggregates = any(
        words[i : i + 2] == ["GROUP", "BY"] or (words[i] in _AGGREGATES and words[i + 1 : i + 2] == ["("])
        for i in range(len(words))
        if not _is_windowed(words, i)
    )
    distinct = any(words[i : i + 2] == ["SELECT", "DISTINCT"] for i in range(len(words)))
    sorts = any(words[i : i + 2] == ["ORDER", "BY"] and not _inside_over(words, i) for i in range(len(words)))
    return SqlFacts(tables, aggregates, distinct, sorts, _problem(tokens))


def _tokens(sql: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "sign"
        if kind != "space":
            found.append(_Token(kind, match[kind], match.start()))
    return found


def _problem(tokens: Sequence[_Token]) -> tuple[int, str] | None:
    if not tokens:
        return 0, "the SQL is empty"
    if tokens[0].upper not in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("):
        return tokens[0].offset, "expected a query that starts with SELECT or WITH"
    open_at: list[_Token] = []
    for number, token in enumerate(tokens):
        if token.upper == "(":
            open_at.append(token)
        elif token.upper == ")":
            if not open_at:
                return token.offset, "unbalanced ')'"
            open_at.pop()
        elif token.upper == ";" and number + 1 < len(tokens):
            return token.offset, "a step is a single query: nothing may follow the ';'"
        elif token.text in ("'", '"', "`") and token.kind == "sign":
            return token.offset, f"unterminated quote {token.text}"
    return (open_at[-1].offset, "unbalanced '('") if open_at else None


def _closing(words: Sequence[str], at: int) -> int:
    """Return the index after the parenthesis that closes the one at `at`."""
    depth = 0
    for number in range(at, len(words)):
        depth += (words[number] == "(") - (words[number] == ")")
        if depth == 0:
            return number + 1
    return len(words)


def _is_windowed(words: Sequence[str], at: int) -> bool:
    """Return whether this is a window function, sum(x) OVER (...), not an aggregate."""
    if words[at + 1 : at + 2] != ["("]:
        return False
    end = _closing(words, at + 1)
    return words[end : end + 1] == ["OVER"]


def _inside_over(words: Sequence[str], at: int) -> bool:
    depth = 0
    for number in range(at, -1, -1):
        depth += (words[number] == ")") - (words[number] == "(")
        if depth < 0:
            return words[number - 1] in ("OVER", "GROUP", "AS") or words[number - 1] in _AGGREGATES
    return False


def _tables(tokens: Sequence[_Token]) -> list[TableName]:
    words = [token.upper for token in tokens]
    own = _cte_names(tokens, words)
    # For each open parenthesis, whether it contains a query: FROM in extract(year from x) names no table.
    holds_query = [True]
    found = []
    for number, word in enumerate(words):
        if word == "(":
            inner = words[number + 1] if number + 1 < len(words) else ""
            holds_query.append(inner in _SUBQUERY_STARTS or (inner == "(" and holds_query[-1]))
        elif word == ")" and len(holds_query) > 1:
            holds_query.pop()
        elif word == "JOIN":
            found += _named(tokens, words, number + 1, _join_kind(words, number), own)
        elif word == "FROM" and holds_query[-1] and not _is_distinct_from(words, number):
            found += _from_list(tokens, words, number + 1, own)
    return found


def _is_distinct_from(words: Sequence[str], at: int) -> bool:
    return at >= 2 and words[at - 1] == "DISTINCT" and words[at - 2] in ("IS", "NOT")


def _cte_names(tokens: Sequence[_Token], words: Sequence[str]) -> set[str]:
    """Return the names of common table expressions: `WITH name AS (`."""
    if "WITH" not in words:
        return set()
    return {
        tokens[i].text.lower()
        for i in range(len(words) - 2)
        if tokens[i].kind in ("word", "quoted") and words[i + 1] == "AS" and words[i + 2] == "("
    }


def _join_kind(words: Sequence[str], at: int) -> str:
    before = [word for word in words[max(0, at - 3) : at] if word in (*_OUTER, "SEMI", "ANTI", "CROSS")]
    outer = [word for word in before if word in _OUTER]
    if any(word in ("SEMI", "ANTI") for word in before):
        return "SEMI"
    return outer[-1] if outer else "INNER"


def _from_list(tokens: Sequence[_Token], words: Sequence[str], at: int, own: set[str]) -> list[TableName]:
    """Return the tables of a list such as FROM a, b AS c, (select ...) d."""
    found = _named(tokens, words, at, "", own)
    while at < len(words):
        word = words[at]
        if word == "(":
            at = _closing(words, at)
            continue
        if word in (")", ";", "JOIN") or word in _ENDS_FROM:
            break
        if word == ",":
            found += _named(tokens, words, at + 1, "INNER", own)
        at += 1
    return found


def _named(
    tokens: Sequence[_Token], words: Sequence[str], at: int, join: str, own: set[str]
) -> list[TableName]:
    while at < len(words) and words[at] in ("LATERAL", "ONLY"):
        at += 1
    if at >= len(tokens) or tokens[at].kind not in ("word", "quoted"):
        return []
    token = tokens[at]
    after = words[at + 1] if at + 1 < len(words) else ""
    # name(...) is a function and a.b a table of a catalog: neither is a step.
    if after in ("(", ".") or token.text.lower() in own or token.upper in ("VALUES", "UNNEST", "EXPLODE"):
        return []
    return [TableName(token.text, token.offset, join)]
