"""Feature levels: what this version can do, and with what a new cluster begins.

A level is finalized only when everything that it promises works: clients choose their protocols by it (a
producer would use the second version of transactions, for example). `kraft.version` is not in these
records; it belongs to the quorum's own control records and is 0 for a fixed set of voters.
"""

from __future__ import annotations

from ottla.protocol.message import Message
from ottla.protocol.messages.feature_level_record import FeatureLevelRecord

METADATA_VERSION = "metadata.version"
METADATA_VERSION_LEVEL = 30  # 4.3-IV0
METADATA_VERSION_LEVEL_MIN = 7  # 3.3-IV3
# Replicas that fell out of the ISR while it was too small remain eligible as leaders.
ELR_VERSION = "eligible.leader.replicas.version"
ELR_VERSION_LEVEL = 1
ELR_METADATA_VERSION_MIN = 23  # 4.0-IV1
# Groups whose members are assigned by the coordinator (KIP-848).
GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
# Transactions: 1 writes their records with tagged fields, 2 has an epoch for each of them (KIP-890).
TRANSACTION_VERSION = "transaction.version"
TRANSACTION_VERSION_LEVEL = 2

# The lowest and highest level of each feature that this version can run with.
SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_LEVEL_MIN, METADATA_VERSION_LEVEL),
    ELR_VERSION: (0, ELR_VERSION_LEVEL),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
}


def bootstrap_records() -> list[Message]:
    """The records with which a new cluster begins."""
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(name=ELR_VERSION, feature_level=ELR_VERSION_LEVEL),
        FeatureLevelRecord(name=GROUP_VERSION, feature_level=GROUP_VERSION_LEVEL),
        FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=TRANSACTION_VERSION_LEVEL),
    ]


def unsupported_features(finalized: dict[str, int]) -> list[str]:
    """What a cluster has switched on that this version cannot do: it must not take part then."""
    problems = []
    for name, level in finalized.items():
        low, high = SUPPORTED_FEATURES.get(name, (0, 0))
        if not low <= level <= high:
            problems.append(f"{name}={level}: this version supports {low} to {high}")
    return problems
