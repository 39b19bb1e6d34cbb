"""The events of `ottla cluster`: one line per event, as text or as JSON."""

from __future__ import annotations

import json
import signal
import sys

TAIL_LINES = 20
TAIL_BYTES = 8_000


def how_it_ended(code: int) -> str:
    """Describe an exit code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def log_tail(path: str) -> list[str]:
    """Return the last lines of a broker's log."""
    try:
        with open(path, "rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - TAIL_BYTES))
            return log.read().decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return []


class Events:
    """Prints text, or one JSON object per line with `event` and, if applicable, `broker`."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def emit(self, event: str, text: str, **details: object) -> None:
        line = json.dumps({"event": event, **details}, ensure_ascii=False) if self._as_json else text
        self._print(line)

    def died(self, node_id: int, code: int, then: str, log_path: str, *, was_ready: bool) -> None:
        """Report that a broker died; if it was never ready, print the end of its log."""
        tail = [] if was_ready else log_tail(log_path)
        how = how_it_ended(code)
        text = f"broker {node_id} died ({how}), {then}; its log: {log_path}"
        self.emit(
            "died", text, broker=node_id, exit_code=code, how=how, then=then, log=log_path, log_tail=tail
        )
        if not self._as_json:
            for line in tail:
                print(f"broker {node_id} | {line}", file=sys.stderr, flush=True)

    def _print(self, line: str) -> None:
        try:
            print(line, flush=True)
        except BrokenPipeError:
            # The reader of the output is gone; the cluster continues.
            sys.stdout = open("/dev/null", "w", encoding="ascii")  # noqa: SIM115
