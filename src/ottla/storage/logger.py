"""The logger of the storage layer."""

from __future__ import annotations

import logging

logger = logging.getLogger("ottla.storage")
