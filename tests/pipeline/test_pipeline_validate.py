"""Validation messages and their positions."""

from __future__ import annotations

import pytest

SINK = """
sinks:
  out:
    from: {name}
    topic: out
    {more}
"""


def test_all_errors_are_reported(check):
    found = check(
        """\
        pipeline: my pipeline
        sorces: {}
        sources:
          orders:
            topic: orders
            format: jsn
            schema: id BIGNIT
            watermark: {column: at, dely: 10 seconds}
          orders:
            topic: again
        steps:
          big:
            sql: |
              SELECT *
              FROM ordrs
          both:
            sql: SELECT 1
            map: x.py:f
        sinks:
          out:
            from: bgi
            topic: out put
            mode: exactly
            partition_by: day
        options:
          trigger: often
          shuffle_partitions: few
        """
    )
    assert found == [
        "1:11: error: invalid name 'my pipeline': use letters, digits, - and _ only",
        "2:1: error: the file: unknown key 'sorces'; did you mean 'sources'?",
        "6:13: error: source 'orders': 'format' is 'jsn', expected json or avro or string or raw; "
        "did you mean 'json'?",
        "7:16: error: source 'orders': schema: unknown type 'BIGNIT'; did you mean 'BIGINT'?",
        "8:16: error: source 'orders': watermark: 'delay' is missing",
        "8:29: error: source 'orders': watermark: unknown key 'dely'; did you mean 'delay'?",
        "9:3: error: sources: duplicate key 'orders'; first on line 4",
        "15:12: error: step 'big': unknown source or step 'ordrs'; did you mean 'orders'?",
        "16:3: error: step 'both': expected one of sql, python, map, dedup, state; found sql and map",
        "21:11: error: sink 'out': unknown source or step 'bgi'; did you mean 'big'?",
        "22:12: error: sink 'out': invalid topic name 'out put': use letters, digits, '.', '_' and '-' only",
        "23:11: error: sink 'out': 'mode' is 'exactly', expected at-least-once or exactly-once; "
        "did you mean 'exactly-once'?",
        "24:5: error: sink 'out': 'partition_by' is not allowed with 'topic'",
        "26:12: error: options: 'trigger' is 'often', expected a duration such as '30 seconds', '10 "
        "minutes', '500ms' or 'as soon as possible'",
        "27:23: error: options: 'shuffle_partitions' is 'few', expected a number of at least 1",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: error: the file is empty; docs/PIPELINES.md describes the format"),
        ("a: [1", "1:6: error: invalid YAML: "),
        ("- a\n", "1:1: error: expected a mapping with the keys pipeline"),
        ("pipeline: p\n", "1:1: error: 'sources' is missing: a pipeline needs at least one"),
        ("pipeline: p\nsources: nothing\n", "2:10: error: sources: expected a mapping (key: value)"),
    ],
)
def test_invalid_files(check, text, message):
    assert any(each.startswith(message) for each in check(text)), check(text)


def test_missing_file(tmp_path):
    from ottla.pipeline.definition.validation import validate

    pipeline, problems = validate(str(tmp_path / "nothing.yaml"))
    assert pipeline is None
    assert "No such file" in problems.errors[0].message


def test_variables(check, load):
    text = """\
        pipeline: p
        variables: {where: "localhost:1", topic: orders}
        bootstrap: ${where}
        sources: {s: {topic: "${topic}", format: raw}}
        sinks: {o: {from: s, console: true}}
        """
    assert load(text).bootstrap == "localhost:1"
    assert load(text, where="other:2").bootstrap == "other:2"
    assert load(text).sources["s"].topics == ("orders",)
    assert check(text, tpic="x") == [
        "2:1: error: --set tpic=...: unknown variable 'tpic'; did you mean 'topic'?"
    ]
    assert check(text.replace("${where}", "${were}")) == [
        "3:12: error: unknown variable ${were}; did you mean 'where'?"
    ]


def test_cycles(checked):
    found = checked(
        """
        steps:
          a: {sql: SELECT * FROM c JOIN orders}
          b: {sql: SELECT * FROM a}
          c: {sql: SELECT * FROM B}
        """,
        SINK.format(name="c", more=""),
    )
    assert found == ["the steps form a cycle: a -> c -> b -> a"]


def test_duplicate_names_are_case_insensitive(checked):
    found = checked("steps: {Orders: {sql: SELECT * FROM clicks}}", SINK.format(name="ORDERS", more=""))
    assert found == ["duplicate name 'Orders': 'orders' is defined on line 3"]


def test_code(checked, tmp_path):
    (tmp_path / "steps.py").write_text("def clean(row):\n    return row\n")
    found = checked(
        """
        steps:
          a: {map: steps.py:clean, from: orders, schema: id BIGINT}
          b: {map: steps.py:cleen, from: a, schema: id BIGINT}
          c: {python: clean, from: b}
          d: {map: steps.py:clean, from: [a, b]}
        """,
        SINK.format(name="d", more=""),
    )
    assert found == [
        "step 'b': steps.py has no 'cleen'; did you mean 'clean'?",
        "step 'c': 'python' is 'clean', expected file.py:name or module:name",
        "step 'd': 'schema' is missing",
        "step 'd': 'from' takes a single name here",
    ]


@pytest.mark.parametrize(
    ("step", "more", "message"),
    [
        ("{sql: 'SELECT count(*) AS n FROM orders'}", "", "aggregates a stream without a watermark"),
        ("{sql: 'SELECT count(*) AS n FROM orders'}", "output: update", None),
        ("{sql: \"SELECT count(*) FROM clicks GROUP BY window(at, '1 minute')\"}", "", None),
        ("{sql: 'SELECT * FROM orders ORDER BY id'}", "", "sorts a stream, which needs 'output: complete'"),
        ("{sql: 'SELECT count(*) n FROM orders ORDER BY n'}", "output: complete", None),
        ("{sql: 'SELECT count(*) n FROM orders ORDER BY n'}", "output: update", "sorting needs"),
        ("{sql: 'SELECT * FROM orders'}", "output: complete", "'output: complete' needs an aggregation"),
        (
            "{sql: 'SELECT id, count(*) FROM orders GROUP BY id'}",
            "{output: update, mode: exactly-once}",
            "does not support",
        ),
        ("{sql: 'SELECT * FROM clicks c LEFT JOIN views v ON c.id = v.id'}", "", None),
        (
            "{sql: 'SELECT * FROM clicks c LEFT JOIN orders o ON c.id = o.id'}",
            "",
            "needs a watermark on both",
        ),
        (
            "{sql: 'SELECT * FROM clicks c JOIN views v ON c.id = v.id'}",
            "output: update",
            "joins two streams",
        ),
        ("{sql: 'SELECT * FROM orders LEFT JOIN customers USING (customer)'}", "", None),
        ("{sql: 'SELECT * FROM orders JOIN customers USING (customer)'}", "", None),
        (
            "{sql: 'SELECT * FROM orders RIGHT JOIN customers USING (customer)'}",
            "",
            "the outer side is a table",
        ),
        (
            "{sql: 'SELECT * FROM customers LEFT JOIN orders USING (customer)'}",
            "",
            "the outer side is a table",
        ),
        (
            "{sql: 'SELECT * FROM orders FULL JOIN customers USING (customer)'}",
            "",
            "the outer side is a table",
        ),
        ("{sql: 'SELECT * FROM customers'}", "", "reads tables only"),
        ("{dedup: id, from: clicks}", "", None),
        ("{dedup: id, from: orders}", "", "'dedup' needs a watermark on 'orders'"),
        ("{dedup: customer, from: customers}", "", "'dedup' needs a stream, but 'customers' is a table"),
        ("{sql: SELECT 1 FROM orders, from: orders}", "", "the SQL names its inputs"),
        ("{dedup: id, from: clicks, time: event}", "", "'time' is not allowed with 'dedup'"),
        ("{sql: SELECT 1 FROM orders}", "delete_when: 'true'", "'delete_when' needs a 'key'"),
        ("{sql: SELECT 1 FROM orders}", "compacted: true", "a compacted topic needs a 'key'"),
        ("{sql: SELECT 1 FROM orders}", "format: avro", "'schema' is missing"),
        (
            "{sql: SELECT 1 FROM orders}",
            "{format: avro, schema: id INT}",
            "the Avro schema is not valid JSON",
        ),
        ("{sql: SELECT 1 FROM orders}", "value: id", "'value' is for formats string and raw"),
    ],
)
def test_unsupported_queries(checked, step, more, message):
    more = more.strip("{}").replace(", ", "\n    ")
    found = checked(f"steps:\n  s: {step}\n", SINK.format(name="s", more=more))
    if message is None:
        assert found == []
    else:
        assert any(message in each for each in found), found


def test_state_steps(checked, tmp_path):
    (tmp_path / "p.py").write_text("class Count: ...\n")
    found = checked(
        """
        steps:
          s: {state: 'p.py:Count', from: orders, keys: id, schema: n INT, time: event, event_time: at}
        options: {state_store: memory}
        """,
        SINK.format(name="s", more=""),
    )
    assert found == [
        "step 's': 'state' needs 'state_store: rocksdb'",
        "step 's': 'time: event' needs a watermark on 'orders'",
        "step 's': event_time: unknown column 'at' in its schema",
    ]


def test_chained_stateful_steps_need_append(checked):
    steps = """
        steps:
          once: {dedup: id, from: clicks}
          n: {sql: "SELECT window, count(*) FROM once GROUP BY window(at, '1 minute')"}
        """
    assert checked(steps, SINK.format(name="n", more="")) == []
    found = checked(steps, SINK.format(name="n", more="output: update"))
    assert found == [
        "sink 'out': steps once and n are chained stateful operators, which need 'output: append'"
    ]


def test_sources(check):
    found = check(
        """\
        pipeline: p
        sources:
          a: {topic: t, schema: id INT, watermark: {column: add, delay: 1 second}}
          b: {topic: t, schema: "id INT, _key STRING", table: true, start: latest}
          c: {topic: t, format: string, schema: id INT}
          d: {topic: t, start: middle, format: raw}
          e: {topic: t}
          f: {topic: t, format: avro, schema: '{"type": "record", "name": "x", "fields": []}'}
        sinks:
          o: {from: a, lake: x, output: update}
          p: {from: d, lake: ./x}
        options: {dead_letter: t}
        """
    )
    assert found == [
        "3:53: error: source 'a': watermark: unknown column 'add'; the columns are id, _key, _topic, "
        "_partition, _offset, _timestamp",
        "4:25: error: source 'b': schema: column name '_key' is reserved",
        "4:61: error: source 'b': 'start' is not allowed with 'table': a table is always read whole",
        "5:41: error: source 'c': format string takes no schema: it has one column 'value'",
        "6:24: error: source 'd': 'start' is 'middle', expected earliest or latest or group",
        "7:6: error: source 'e': 'schema' is missing",
        "10:3: error: sink 'o': a lake table supports 'output: append' only",
        "11:22: error: sink 'p': sink 'o' also writes to ./x",
        "12:24: error: options: source 'f' reads the dead_letter topic: bad records would loop",
    ]


def test_warnings(checked):
    found = checked(
        "steps: {s: {sql: SELECT * FROM orders JOIN clicks USING (id)}}",
        SINK.format(name="s", more=""),
        warnings=True,
    )
    assert found == [
        "'views' is not used by any sink and is not run",
        "'customers' is not used by any sink and is not run",
        "step 's': a join of two streams without watermarks on both keeps every row in state forever",
    ]


def test_console_sink_with_spark_connect(checked):
    sinks = "sinks: {o: {from: orders, console: true}}\n"
    assert checked(sinks, "options: {master: 'spark://host:7077'}\n") == []
    found = checked(sinks, "options: {master: 'sc://host:15002'}\n")
    assert found == ["sink 'o': a console sink does not work with Spark Connect; use another master or sink"]
