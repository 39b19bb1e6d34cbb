"""Read a topic as Arrow, aggregate it with Polars and write the result back to another topic.

pip install polars
python examples/client/arrow_polars.py [BOOTSTRAP] [--source payments] [--target totals]
"""

from __future__ import annotations

import argparse

import polars as pl
import pyarrow as pa

from ottla.client import read_arrow, write_arrow


def aggregate(bootstrap: str, source: str, target: str) -> pl.DataFrame:
    table = read_arrow(source, bootstrap_servers=bootstrap, columns=["value"]).read_all()
    payments = pl.DataFrame({"value": pl.from_arrow(table["value"])}).select(
        pl.col("value")
        .cast(pl.String)
        .str.json_decode(pl.Struct({"account": pl.String, "cents": pl.Int64}))
        .struct.unnest()
    )
    totals = payments.group_by("account").agg(pl.len().alias("payments"), pl.sum("cents")).sort("account")
    records = totals.select(
        key=pl.col("account").cast(pl.Binary),
        value=pl.struct(pl.all()).struct.json_encode().cast(pl.Binary),
    )
    binary = pa.schema({"key": pa.binary(), "value": pa.binary()})
    write_arrow(records.to_arrow().cast(binary), target, bootstrap_servers=bootstrap)
    return totals


def main() -> None:
    parser = argparse.ArgumentParser(description="Aggregate a topic with Polars.")
    parser.add_argument("bootstrap", nargs="?", default="localhost:9092", help="brokers (%(default)s)")
    parser.add_argument("--source", default="payments", help="the topic to read (%(default)s)")
    parser.add_argument("--target", default="totals", help="the topic to write (%(default)s)")
    arguments = parser.parse_args()
    totals = aggregate(arguments.bootstrap, arguments.source, arguments.target)
    for account, payments, cents in totals.iter_rows():
        print(f"{account}: {payments} payments, {cents / 100:.2f}")
    print(f"wrote {totals.height} records to {arguments.target}")


if __name__ == "__main__":
    main()
