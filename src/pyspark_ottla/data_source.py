"""The data source as Spark sees it: a name, a schema, and who reads and writes."""

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

        self._check_fixed(schema)
        return OttlaReader(self._options(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from pyspark_ottla.reader.stream import OttlaStreamReader

        self._check_fixed(schema)
        return OttlaStreamReader(self._options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_ottla.sink.writers import OttlaWriter

        return OttlaWriter(self._options(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from pyspark_ottla.sink.writers import OttlaStreamWriter

        return OttlaStreamWriter(self._options(), schema)

    def _check_fixed(self, schema: StructType) -> None:
        """As with Spark's own connector, a schema that is given to the reader is a mistake."""
        fixed = self.schema()
        if schema.simpleString() != fixed.simpleString():
            raise ValueError(
                f"the columns of this source are {fixed.simpleString()}: no other schema can be given. "
                "The option columns chooses some of them, valueFormat and valueSchema decode values"
            )

    def _options(self) -> Mapping[str, str]:
        """Options by their names in lower case: Spark does not tell them apart either."""
        return {name.lower(): value for name, value in self.options.items()}
