"""Data loss: records that a query should read no longer exist."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence

from pyspark_ottla.offsets import TopicPartition

log = logging.getLogger("pyspark_ottla")

PARTITIONS_SHOWN_MAX = 5


class DataLoss(Exception):
    """Records that a query should read no longer exist, and `failOnDataLoss` is true."""


def report_loss(what: str, *, fail: bool) -> None:
    """Raise DataLoss, or log a warning if the query is to continue."""
    if fail:
        raise DataLoss(
            f"{what}. The query cannot read these records; to continue with the remaining ones set the "
            "option failOnDataLoss to false"
        )
    log.warning("%s; continuing, because failOnDataLoss is false", what)


def format_partitions(partitions: Sequence[TopicPartition]) -> str:
    """Return the names of the first few partitions, and how many more there are."""
    names = [f"{topic}-{partition}" for topic, partition in partitions[:PARTITIONS_SHOWN_MAX]]
    more = len(partitions) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def format_topic_id(topic_id: bytes) -> str:
    """Return a topic id as Kafka's tools print it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
