"""The version that brokers and users are told; a constant, because asking package metadata costs 50 ms."""

from __future__ import annotations

VERSION = "0.1.0"
