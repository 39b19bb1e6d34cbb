"""The events of a run, and a fingerprint that is the same for every run of a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable


class Trace:
    """Call it to record an event. `keep` stores the lines, `show` is called with each of them."""

    def __init__(self, *, keep: bool = False, show: Callable[[str], None] | None = None) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.now_ns: Callable[[], int] = lambda: 0
        self._keep = keep
        self._show = show
        self._hash = hashlib.sha256()

    def __call__(self, kind: str, who: str, text: str = "") -> None:
        now_ns = self.now_ns()
        line = f"{now_ns // 1_000_000_000:4d}.{now_ns // 1000 % 1_000_000:06d} {kind:<8} {who:<10} {text}"
        self.count += 1
        self._hash.update(line.encode("utf-8", "backslashreplace"))
        self._hash.update(b"\n")
        if self._keep:
            self.lines.append(line)
        if self._show is not None:
            self._show(line)

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()[:16]
