"""The token scan of SQL."""

from __future__ import annotations

import pytest

from ottla.pipeline.definition.sql_scan import scan


def tables(sql: str) -> list[tuple[str, str]]:
    return [(table.name, table.join) for table in scan(sql).tables]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM a", [("a", "")]),
        ("select * from `a b` x", [("a b", "")]),
        ("SELECT * FROM a, b AS c, d", [("a", ""), ("b", "INNER"), ("d", "INNER")]),
        ("SELECT * FROM a JOIN b ON a.x = b.x", [("a", ""), ("b", "INNER")]),
        ("SELECT * FROM a LEFT OUTER JOIN b USING (x)", [("a", ""), ("b", "LEFT")]),
        ("SELECT * FROM a FULL JOIN b USING (x) RIGHT JOIN c", [("a", ""), ("b", "FULL"), ("c", "RIGHT")]),
        ("SELECT * FROM a LEFT SEMI JOIN b USING (x)", [("a", ""), ("b", "SEMI")]),
        ("SELECT * FROM (SELECT * FROM inner_one) t JOIN b", [("inner_one", ""), ("b", "INNER")]),
        ("WITH c AS (SELECT * FROM a) SELECT * FROM c", [("a", "")]),
        ("WITH c AS (SELECT 1), d AS (SELECT * FROM c) SELECT * FROM d JOIN e", [("e", "INNER")]),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM b)", [("a", ""), ("b", "")]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", [("a", ""), ("b", "")]),
        ("SELECT extract(YEAR FROM ts) FROM a", [("a", "")]),
        ("SELECT trim(BOTH 'x' FROM s), substring(s FROM 2) FROM a", [("a", "")]),
        ("SELECT * FROM a WHERE x IS NOT DISTINCT FROM y", [("a", "")]),
        ("SELECT 'from b', \"from c\" FROM a -- from d\n/* from e */", [("a", "")]),
        ("SELECT * FROM catalog.db.t JOIN range(10)", []),
        ("SELECT * FROM a LATERAL VIEW explode(xs) t AS x", [("a", "")]),
        ("SELECT * FROM ((SELECT * FROM a))", [("a", "")]),
    ],
)
def test_tables(sql, expected):
    assert tables(sql) == expected


def test_offsets_point_at_names():
    sql = "SELECT 1\nFROM one\nJOIN two"
    assert [sql[table.offset :][:3] for table in scan(sql).tables] == ["one", "two"]


@pytest.mark.parametrize(
    ("sql", "aggregates"),
    [
        ("SELECT count(*) FROM a", True),
        ("SELECT x FROM a GROUP BY x", True),
        ("SELECT sum(x) OVER (PARTITION BY y) FROM a", False),
        ("SELECT size(x), counted FROM a", False),
        ("SELECT max (x) FROM a", True),
        ("SELECT 'count(x)' FROM a", False),
    ],
)
def test_aggregates(sql, aggregates):
    assert scan(sql).aggregates is aggregates


def test_sorting_distinct():
    assert scan("SELECT DISTINCT x FROM a").distinct
    assert scan("SELECT x FROM a ORDER BY x").sorts
    assert not scan("SELECT row_number() OVER (ORDER BY x) FROM a").sorts


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "the SQL is empty"),
        ("-- nothing", "the SQL is empty"),
        ("INSERT INTO x", "expected a query that starts with SELECT or WITH"),
        ("SELECT (1 FROM a", "unbalanced '('"),
        ("SELECT 1) FROM a", "unbalanced ')'"),
        ("SELECT 'x FROM a", "unterminated quote '"),
        ("SELECT 1; SELECT 2", "a step is a single query: nothing may follow the ';'"),
        ("SELECT 1;", None),
    ],
)
def test_syntax_errors(sql, message):
    problem = scan(sql).problem
    assert (problem[1] if problem else None) == message
