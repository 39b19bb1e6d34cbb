"""The settings of transactions."""

from __future__ import annotations

from ottla.config.load import BrokerConfig

# The time-out of a transaction that only its two-phase commit may end.
NO_TIMEOUT_MS = (1 << 31) - 1


class TransactionsConfig:
    __slots__ = (
        "expiration_check_interval_ms",
        "expiration_ms",
        "max_timeout_ms",
        "two_phase_commit_enabled",
    )

    def __init__(self, config: BrokerConfig) -> None:
        self.max_timeout_ms = config.get_int("transaction.max.timeout.ms")
        self.expiration_ms = config.get_int("transactional.id.expiration.ms")
        self.expiration_check_interval_ms = config.get_int(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        )
        self.two_phase_commit_enabled = config.get_bool("transaction.two.phase.commit.enable")
