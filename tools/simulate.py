"""Run the simulator from any directory: the same as `python -m simulator` in the repository root."""

from __future__ import annotations

import os
import sys

os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.execv(sys.executable, [sys.executable, "-m", "simulator", *sys.argv[1:]])
