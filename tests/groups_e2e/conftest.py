"""Consumer groups of real clients, watched from outside: who owned what, and when."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the tests of this directory share modules
