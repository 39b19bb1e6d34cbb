"""Print the profiles of brokers in a directory."""

from __future__ import annotations

import os
import pstats

LINES = 40


def print_profiles(name: str, directory: str, *, sampled: bool) -> None:
    """Print one profile per broker, in order of start."""
    for file_name in sorted(os.listdir(directory)):
        path = os.path.join(directory, file_name)
        print(f"\n--- {name}, {file_name}")
        if not os.path.getsize(path):
            print("(no profile: the broker was killed)")
        elif sampled:
            with open(path, encoding="utf-8") as file:
                print(file.read())
        else:
            pstats.Stats(path).sort_stats("tottime").print_stats(LINES)
