"""Where the second version of the transaction protocol (KIP-890) and other news begin, API by API."""

from __future__ import annotations

FEATURE = "transaction.version"
SECOND_VERSION = 2
END_WITH_EPOCHS = 5
PRODUCE_THAT_ADDS = 12
OFFSET_COMMIT_THAT_ADDS = 5
OFFSET_COMMIT_WITH_MEMBER = 3
INIT_WITH_TWO_PHASES = 6
ADD_BY_CLIENTS = 3  # the last that clients may use: from the next on it is for brokers
LIST_BY_PATTERN = 2
