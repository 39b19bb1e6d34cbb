"""Where storage writes what an operator should know."""

from __future__ import annotations

import logging

logger = logging.getLogger("ottla.storage")
