"""Which names a topic may have."""

from __future__ import annotations

from ottla.controller.refusal import Refusal
from ottla.protocol.errors import ErrorCode

NAME_CHARS_MAX = 249  # with the partition's number and "-delete" it must fit a file name of 255
METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    """Refuses a name that cannot be a topic's."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > NAME_CHARS_MAX:
        problem = f"it has {len(name)} characters, of which {NAME_CHARS_MAX} are allowed"
    elif not _ALLOWED.issuperset(name):
        problem = f"'{name}' has characters other than ASCII letters, digits, '.', '_' and '-'"
    else:
        return
    raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
