"""`python -m ottla` is the `ottla` command."""

from __future__ import annotations

import sys

from ottla.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
