"""Run `ottla` under a profiler and write the profile: profiled_serve.py trace|sample PATH serve ...

`trace` is cProfile: exact counts, but with an overhead per call, so small functions look too expensive.
`sample` records the stack every few milliseconds of CPU time: accurate shares per line, no counts.
"""

from __future__ import annotations

import cProfile
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from types import FrameType

SAMPLE_SECONDS = 0.001  # the kernel rounds it up to its tick


def traced(path: str, arguments: Sequence[str]) -> int:
    from ottla.cli.main import main

    profiler = cProfile.Profile()
    try:
        return profiler.runcall(main, arguments)
    finally:
        profiler.dump_stats(path)


def sampled(path: str, arguments: Sequence[str]) -> int:
    from ottla.cli.main import main

    own: Counter[str] = Counter()
    within: Counter[str] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        seen = set()
        innermost = True
        while frame is not None:
            code = frame.f_code
            name = f"{_short(code.co_filename)}:{code.co_qualname}"
            if innermost:
                own[f"{name}:{frame.f_lineno}"] += 1
                innermost = False
            seen.add(name)
            frame = frame.f_back
        within.update(seen)

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    try:
        return main(arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        total = max(1, sum(own.values()))
        with open(path, "w", encoding="utf-8") as file:
            for title, counts in (("own time by line", own), ("time within a function", within)):
                file.write(f"\n{title} ({total} samples)\n")
                for name, count in counts.most_common(45):
                    file.write(f"{100 * count / total:6.2f}%  {name}\n")


def _short(filename: str) -> str:
    return filename.rpartition(f"{os.sep}ottla{os.sep}")[2] or filename


if __name__ == "__main__":
    kind, output, *rest = sys.argv[1:]
    sys.exit((traced if kind == "trace" else sampled)(output, rest))
