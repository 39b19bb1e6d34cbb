"""Options with the prefix `kafka.`: those that configure the client, and those that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.client import ClusterOptions
from ottla.client.blocking.arrow_write import BATCH_BYTES, RECORD_BYTES_MAX
from ottla.client.blocking.fetch_range import FetchOptions
from pyspark_ottla.option_values import one_of, true_or_false, whole_number

PREFIX = "kafka."
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
UNSUPPORTED_CONSUMER_OPTIONS = {
    "auto.offset.reset": "use startingOffsets: Spark tracks the offsets that were read",
    "key.deserializer": "keys are read as binary: decode them with DataFrame functions",
    "value.deserializer": "values are read as binary: decode them with DataFrame functions",
    "enable.auto.commit": "the source does not commit offsets; see commitOffsetsToGroup",
    "interceptor.classes": "interceptors may break the query",
}
UNSUPPORTED_PRODUCER_OPTIONS = {
    "key.serializer": "keys are strings or binary: encode them with DataFrame functions",
    "value.serializer": "values are strings or binary: encode them with DataFrame functions",
}


class WriterOptions(NamedTuple):
    """The arguments of an ArrowWriter that can be set by options."""

    acks: str = "all"
    idempotent: bool | None = None
    compression: str = "none"
    batch_bytes: int = BATCH_BYTES
    record_bytes_max: int = RECORD_BYTES_MAX
    delivery_timeout_ms: float = 120_000


def client_parameters(options: Mapping[str, str]) -> dict[str, str]:
    """Return the `kafka.` options without the prefix."""
    return {name[len(PREFIX) :]: value for name, value in options.items() if name.startswith(PREFIX)}


def group_id_of(options: Mapping[str, str]) -> str:
    """Return the consumer group to start from or to commit to; empty if none is set."""
    return options.get("kafka.group.id", "").strip()


def cluster_options(options: Mapping[str, str]) -> ClusterOptions:
    """Parse the connection options. Raises ValueError."""
    given = client_parameters(options)
    servers = given.get("bootstrap.servers", "").strip()
    if not servers:
        raise ValueError("option 'kafka.bootstrap.servers' must be set, for example to localhost:9092")
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise ValueError(f"option 'kafka.security.protocol' is {protocol!r}: only PLAINTEXT is supported")
    found: dict[str, Any] = {}
    for name, field in (
        ("request.timeout.ms", "request_timeout_ms"),
        ("socket.connection.setup.timeout.ms", "connect_timeout_ms"),
        ("retry.backoff.ms", "retry_backoff_ms"),
        ("retry.backoff.max.ms", "retry_backoff_max_ms"),
        ("metadata.max.age.ms", "metadata_max_age_ms"),
    ):
        if name in given:
            found[field] = whole_number(PREFIX + name, given[name])
    if "client.id" in given:
        found["client_id"] = given["client.id"]
    retries = options.get("fetchoffset.numretries")
    if retries is not None:
        # Spark's Kafka connector limits the number of attempts; this client limits the time.
        interval_ms = whole_number(
            "fetchOffset.retryIntervalMs", options.get("fetchoffset.retryintervalms", "1000")
        )
        found["retry_timeout_ms"] = whole_number("fetchOffset.numRetries", retries) * max(interval_ms, 1)
    return ClusterOptions(servers, **found)


def fetch_options(options: Mapping[str, str]) -> FetchOptions:
    """Parse the options of the consumer. Raises ValueError."""
    given = client_parameters(options)
    refuse(given, UNSUPPORTED_CONSUMER_OPTIONS)
    isolation = one_of(options, "kafka.isolation.level", ISOLATION_LEVELS, "read_committed")
    found: dict[str, Any] = {"read_committed": isolation == "read_committed"}
    for name, field in (
        ("max.partition.fetch.bytes", "partition_max_bytes"),
        ("fetch.max.bytes", "fetch_max_bytes"),
        ("fetch.max.wait.ms", "max_wait_ms"),
        ("fetch.min.bytes", "min_bytes"),
    ):
        if name in given:
            found[field] = whole_number(PREFIX + name, given[name])
    if "check.crcs" in given:
        found["check_crcs"] = true_or_false("kafka.check.crcs", given["check.crcs"])
    timeout = options.get("kafkaconsumer.polltimeoutms", options.get("polltimeoutms"))
    if timeout is not None:
        found["poll_timeout_ms"] = whole_number("kafkaConsumer.pollTimeoutMs", timeout)
    return FetchOptions(**found)


def writer_options(options: Mapping[str, str]) -> WriterOptions:
    """Parse the options of the producer. Raises ValueError."""
    given = client_parameters(options)
    refuse(given, UNSUPPORTED_PRODUCER_OPTIONS)
    found: dict[str, Any] = {}
    for name, field in (
        ("batch.size", "batch_bytes"),
        ("max.request.size", "record_bytes_max"),
        ("delivery.timeout.ms", "delivery_timeout_ms"),
    ):
        if name in given:
            found[field] = whole_number(PREFIX + name, given[name])
    if "acks" in given:
        found["acks"] = given["acks"]
    if "compression.type" in given:
        found["compression"] = given["compression.type"]
    if "enable.idempotence" in given:
        found["idempotent"] = true_or_false("kafka.enable.idempotence", given["enable.idempotence"])
    return WriterOptions(**found)


def refuse(given: Mapping[str, str], reasons: Mapping[str, str]) -> None:
    """Raise ValueError if one of the unsupported options is set."""
    for name, reason in reasons.items():
        if name in given:
            raise ValueError(f"option '{PREFIX}{name}' is not supported: {reason}")
