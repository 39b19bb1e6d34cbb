"""Query a topic with SQL: records stream into DuckDB as Arrow batches, without a copy in between.

pip install duckdb
python examples/client/arrow_duckdb.py [BOOTSTRAP] [--topic payments]
"""

from __future__ import annotations

import argparse

import duckdb

from ottla.client import read_arrow

QUERY = """
    SELECT
        value ->> 'account' AS account,
        count(*) AS payments,
        max(CAST(value ->> 'cents' AS BIGINT)) AS largest
    FROM (SELECT CAST(decode(value) AS JSON) AS value FROM topic)
    GROUP BY account
    ORDER BY account
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Query a topic with DuckDB.")
    parser.add_argument("bootstrap", nargs="?", default="localhost:9092", help="brokers (%(default)s)")
    parser.add_argument("--topic", default="payments", help="the topic (%(default)s)")
    arguments = parser.parse_args()
    reader = read_arrow(arguments.topic, bootstrap_servers=arguments.bootstrap, columns=["value"])
    with duckdb.connect() as database:
        database.register("topic", reader)
        rows = database.execute(QUERY).fetchall()
    for account, payments, largest in rows:
        print(f"{account}: {payments} payments, largest {largest / 100:.2f}")
    print(f"{len(rows)} accounts")


if __name__ == "__main__":
    main()
