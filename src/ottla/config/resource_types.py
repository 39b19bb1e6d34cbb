"""The names of resource types, as Kafka's tools write them."""

from __future__ import annotations

from typing import Final

_NAMES: Final = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}


def resource_type_name(resource_type: int) -> str:
    return _NAMES.get(resource_type) or f"UNKNOWN ({resource_type})"
