"""A fake Spark that calls the writers of the sink in the same order as Spark, with pickled copies."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the lake sink needs pyspark: pip install ottla[pipeline]")
pytest.importorskip("deltalake", reason="the lake sink needs deltalake: pip install ottla[pipeline]")

from deltalake import DeltaTable
from pyspark.sql.types import DataType, StructType, _parse_datatype_json_value

from pyspark_ottla.task_context import SparkTask
from pyspark_ottla_lake import LakeDataSource, writers

Rows = list[dict]
_NAMES = {"int": "integer"}


def cut(text: str) -> list[str]:
    """Split at commas outside brackets."""
    found, depth, start = [], 0, 0
    for place, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            found.append(text[start:place])
            start = place + 1
    return [part.strip() for part in [*found, text[start:]] if part.strip()]


def kind_of(text: str) -> object:
    """Return `array<int>` as Spark's JSON: Spark parses type names in the JVM only."""
    outer, _, inner = text.strip().partition("<")
    inner = inner.removesuffix(">")
    if outer == "array":
        return {"type": "array", "elementType": kind_of(inner), "containsNull": True}
    if outer == "map":
        key, value = cut(inner)
        return {
            "type": "map",
            "keyType": kind_of(key),
            "valueType": kind_of(value),
            "valueContainsNull": True,
        }
    if outer == "struct":
        return schema_json(inner.replace(": ", " "))
    return _NAMES.get(outer, outer)


def schema_json(text: str) -> dict:
    pairs = [part.partition(" ") for part in cut(text)]
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind_of(kind), "nullable": True, "metadata": {}} for name, _, kind in pairs
        ],
    }


def schema_of_text(text: str) -> StructType:
    found: DataType = _parse_datatype_json_value(schema_json(text))
    assert isinstance(found, StructType)
    return found


class FakeQuery:
    """A streaming query, or batch writes, to one table."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, path: str, schema: str, query_id: str = "q-1"
    ) -> None:
        self.path = path
        self.schema = schema_of_text(schema)
        self.query_id = query_id
        self.run_id = "run-1"
        self.options: dict[str, str] = {}
        self._monkeypatch = monkeypatch

    def writer(self, overwrite: bool = False) -> writers.LakeStreamWriter:
        """Return a pickled copy of a writer, as Spark passes it between processes."""
        source = LakeDataSource({"path": self.path, **self.options})
        made = source.streamWriter(self.schema, overwrite)
        return pickle.loads(pickle.dumps(made))

    def batch_writer(self, overwrite: bool = False) -> writers.LakeWriter:
        source = LakeDataSource({"path": self.path, **self.options})
        return pickle.loads(pickle.dumps(source.writer(self.schema, overwrite)))

    def arrow(self, rows: Rows) -> pa.RecordBatch:
        from pyspark_ottla_lake.schemas import arrow_schema

        return pa.RecordBatch.from_pylist(rows, arrow_schema(self.schema))

    def task(self, batch_id: int, rows: Rows, partition: int = 0) -> writers.WrittenFiles:
        """Run one task."""
        identity = SparkTask(self.query_id, batch_id, self.run_id, partition)
        with self._monkeypatch.context() as patched:
            patched.setattr(writers, "current_task", lambda: identity)
            message = self.writer().write(iter([self.arrow(rows)]))
        return pickle.loads(pickle.dumps(message))

    def tasks(self, batch_id: int, parts: Sequence[Rows]) -> list[writers.WrittenFiles]:
        return [self.task(batch_id, rows, place) for place, rows in enumerate(parts)]

    def run(self, batch_id: int, *parts: Rows) -> None:
        """Run and commit a batch."""
        messages = self.tasks(batch_id, parts)
        self.writer().commit(messages, batch_id)

    def append(self, *parts: Rows, overwrite: bool = False) -> None:
        """Run a batch query."""
        messages = [self.batch_writer(overwrite).write(iter([self.arrow(rows)])) for rows in parts]
        self.batch_writer(overwrite).commit(messages)

    def restart(self) -> None:
        self.run_id += "+"

    def table(self) -> DeltaTable:
        return DeltaTable(self.path)

    def rows(self) -> Rows:
        return self.table().to_pyarrow_table().to_pylist()

    def column(self, name: str) -> list:
        return sorted(row[name] for row in self.rows())


@pytest.fixture
def lake(monkeypatch, tmp_path) -> Callable[..., FakeQuery]:
    """lake("id long, name string"): a query that writes such rows to a new table."""

    def make(schema: str, query_id: str = "q-1", table: str = "table") -> FakeQuery:
        return FakeQuery(monkeypatch, str(tmp_path / table), schema, query_id)

    return make
