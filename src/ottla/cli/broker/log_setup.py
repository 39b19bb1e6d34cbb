"""Format of log lines, readable and easy to parse.

One line per event: time, level, package, event, then `name=value` pairs.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

_LEVEL_NAMES = {logging.DEBUG: "DEBUG", logging.INFO: "INFO", logging.WARNING: "WARN", logging.ERROR: "ERROR"}
_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.DEBUG: "\x1b[2m"}
_RESET = "\x1b[0m"


class LineFormatter(logging.Formatter):
    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        level = _LEVEL_NAMES.get(record.levelno, record.levelname)
        package = record.name.removeprefix("ottla.")
        line = f"{clock}.{int(record.msecs):03d} {level:<5} {package:<12} {_one_line(record.getMessage())}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        colour = _COLOURS.get(record.levelno) if self._colour else None
        return f"{colour}{line}{_RESET}" if colour else line


def configure_logging(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send the log of this process to `stream` (default: stderr)."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(colour=stream.isatty()))
    root = logging.getLogger("ottla")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
    # Errors in the event loop are logged, too.
    asyncio_log = logging.getLogger("asyncio")
    asyncio_log.handlers[:] = [handler]
    asyncio_log.propagate = False


def _one_line(text: str) -> str:
    """Escape control characters: messages contain data from clients, which must not forge log lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
