"""The sink as Spark sees it: its name and its writers."""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType


class LakeDataSource(DataSource):
    """`format("ottla_lake")`."""

    @classmethod
    def name(cls) -> str:
        return "ottla_lake"

    def schema(self) -> NoReturn:
        raise ValueError(
            "'ottla_lake' is write-only; read its tables with any Delta reader, "
            "for example deltalake.DeltaTable(path).to_pyarrow_table()"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_ottla_lake.options import parse_options
        from pyspark_ottla_lake.writers import LakeWriter

        return LakeWriter(parse_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from pyspark_ottla_lake.options import parse_options
        from pyspark_ottla_lake.writers import LakeStreamWriter

        return LakeStreamWriter(parse_options(self.options), schema, overwrite)
