"""Options of the asyncio and the blocking client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from ottla.records.compression import CODEC_BY_NAME

DEFAULT_PORT = 9092
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")

# Topic, key and number of partitions; returns a partition, or None for the default choice.
Partitioner = Callable[[str, bytes | None, int], int | None]

_ABOVE_ZERO = (
    "connect_timeout_ms",
    "request_timeout_ms",
    "transaction_timeout_ms",
    "buffer_bytes_max",
)
_CONNECTION = (
    "bootstrap_servers",
    "client_id",
    "connect_timeout_ms",
    "request_timeout_ms",
    "retry_timeout_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "metadata_max_age_ms",
)
# Zero has a meaning, as in Kafka: no pause, no retry, no batching.
_NOT_NEGATIVE = (
    "retry_timeout_ms",
    "retry_backoff_ms",
    "retry_backoff_max_ms",
    "metadata_max_age_ms",
    "linger_ms",
    "delivery_timeout_ms",
    "batch_bytes",
)


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


def parse_bootstrap(servers: str | Sequence[str]) -> list[Address]:
    """Addresses from `"host:port,host:port"` or a list; the port defaults to 9092. Raises ValueError."""
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = []
    for part in parts:
        text = part.strip()
        # Kafka's listener syntax is accepted, too: it is often copied from configs.
        host, port_text = text.rpartition("://")[2], str(DEFAULT_PORT)
        if host.startswith("["):
            host, _, rest = host[1:].partition("]")
            port_text = rest.removeprefix(":") or port_text
        elif host.count(":") == 1:
            host, _, port_text = host.partition(":")
        if not host or not port_text.isdigit() or not 0 < int(port_text) < 65536:
            raise ValueError(f"bootstrap server {text!r}: expected HOST:PORT, e.g. localhost:9092")
        addresses.append(Address(host, int(port_text)))
    if not addresses:
        raise ValueError("no bootstrap servers given: expected HOST:PORT, e.g. localhost:9092")
    return addresses


@dataclass(frozen=True)
class ClientOptions:
    """How to reach a cluster, and how to write to it and read from it.

    All parts of the client take these, either as an object or as keyword arguments of the same names:

        options = ClientOptions("localhost:9092", client_id="loader", compression="zstd")
        cluster = ClusterClient(options)
        write_arrow(table, "orders", options=options)

    `None` for `batch_bytes` and `isolation_level` is the default of the part that uses it: a Producer has
    batches of 128 KiB and a Consumer reads uncommitted records, as Kafka's do; the Arrow functions have
    batches of 1 MB and read committed records.
    """

    bootstrap_servers: str = "localhost:9092"
    client_id: str = "ottla"
    connect_timeout_ms: float = 10_000
    request_timeout_ms: float = 30_000
    # How long the client repeats what fails with a retriable error.
    retry_timeout_ms: float = 60_000
    retry_backoff_ms: float = 50
    retry_backoff_max_ms: float = 1_000
    metadata_max_age_ms: float = 300_000
    # Writing.
    acks: int | str = "all"
    idempotent: bool | None = None
    compression: str = "none"
    compression_level: int | None = None
    batch_bytes: int | None = None
    linger_ms: float = 5
    buffer_bytes_max: int = 32 * 1024 * 1024
    delivery_timeout_ms: float = 120_000
    partitioner: Partitioner | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    two_phase_commit: bool = False
    # Reading.
    isolation_level: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.bootstrap_servers, str):
            object.__setattr__(self, "bootstrap_servers", ",".join(self.bootstrap_servers))
        for name in _ABOVE_ZERO:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value!r}: expected a number above 0")
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name}={value!r}: expected 0 or more")
        self._check_writing()
        if self.isolation_level is not None and self.isolation_level not in ISOLATION_LEVELS:
            raise ValueError(
                f"isolation_level={self.isolation_level!r}: expected one of {', '.join(ISOLATION_LEVELS)}"
            )
        if self.partitioner is not None and not callable(self.partitioner):
            raise ValueError(
                f"partitioner={self.partitioner!r}: expected a callable (topic, key, partition_count)"
            )

    def _check_writing(self) -> None:
        if str(self.acks) not in ACKS:
            raise ValueError(f"acks={self.acks!r}: expected 0, 1 or 'all'")
        if self.compression not in CODEC_BY_NAME:
            raise ValueError(f"compression={self.compression!r}: expected one of {', '.join(CODEC_BY_NAME)}")
        if self.idempotent and self.acks_code != -1:
            raise ValueError(f"acks={self.acks!r}: an idempotent producer needs acks='all'")
        if self.transactional_id is not None and (not self.transactional_id or not self.is_idempotent):
            raise ValueError("transactional_id: needs a name, acks='all' and an idempotent producer")
        if self.two_phase_commit and self.transactional_id is None:
            raise ValueError("two_phase_commit needs a transactional_id")

    @property
    def bootstrap(self) -> list[Address]:
        return parse_bootstrap(self.bootstrap_servers)

    @property
    def acks_code(self) -> int:
        return ACKS[str(self.acks)]

    @property
    def is_idempotent(self) -> bool:
        return self.acks_code == -1 if self.idempotent is None else self.idempotent

    @property
    def codec(self) -> int:
        return CODEC_BY_NAME[self.compression]

    @property
    def connection_key(self) -> tuple[object, ...]:
        """Equal for options that may share connections and metadata."""
        return tuple(getattr(self, name) for name in _CONNECTION)

    @property
    def connection_only(self) -> ClientOptions:
        """Those of `connection_key`; the defaults of all others."""
        return ClientOptions(**{name: getattr(self, name) for name in _CONNECTION})

    def changed(self, **given: Any) -> Self:
        """These options with those of `given` that are not None."""
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(self, **chosen) if chosen else self


# The older name, from when only the blocking client had options.
ClusterOptions = ClientOptions
