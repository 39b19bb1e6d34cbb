"""The version the client tells brokers and the command prints; a constant because metadata lookups cost 50 ms."""

from __future__ import annotations

VERSION = "0.1.0"
