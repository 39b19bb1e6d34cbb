"""The data source as Spark sees it: its name, its schema, its readers and writers."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class OttlaDataSource(DataSource):
    """`format("ottla")`."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        from pyspark_ottla.reader.columns import schema_of

        return schema_of(self._options())

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_ottla.reader.batch import OttlaReader

        self._check_schema(schema)
        return OttlaReader(self._options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from pyspark_ottla.reader.stream import OttlaStreamReader

        self._check_schema(schema)
        return OttlaStreamReader(self._options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_ottla.sink.writers import OttlaWriter

        return OttlaWriter(self._options(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from pyspark_ottla.sink.writers import OttlaStreamWriter

        return OttlaStreamWriter(self._options(), schema)

    def _check_schema(self, schema: StructType) -> None:
        """Refuse a user-specified schema, as Spark's Kafka connector does."""
        fixed = self.schema()
        if schema.simpleString() != fixed.simpleString():
            raise ValueError(
                f"the schema of this source is fixed: {fixed.simpleString()}. To select columns set the "
                "option columns; to decode values set valueFormat and valueSchema"
            )

    def _options(self) -> Mapping[str, str]:
        """Return the options by lower-case name: Spark's option names are case-insensitive."""
        return {name.lower(): value for name, value in self.options.items()}
