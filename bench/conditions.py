"""The conditions of a measurement: hardware, software and load."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PACKAGES = ("ottla", "uvloop", "crc32c", "cramjam", "confluent-kafka")


def conditions(data_root: str) -> dict[str, Any]:
    from ottla.records import kernel

    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": f"{os.cpu_count()} x {_processor()}",
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "optimised": sys.flags.optimize,
        "packages": {name: _version(name) for name in PACKAGES},
        "librdkafka": _librdkafka(),
        "kernel_compiled": kernel.COMPILED,
        "data": f"{_file_system(data_root)} ({data_root})",
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def as_text(found: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    return "\n".join(
        (
            f"machine   {found['machine']}, {found['memory_gb']} GB, {found['system']}",
            f"software  {found['python']}, {packages}, librdkafka {found['librdkafka']}",
            f"kernel    {'compiled' if found['kernel_compiled'] else 'pure Python'}",
            f"data      {found['data']}",
            f"load      {' '.join(map(str, found['load_before']))} before"
            + (f", {' '.join(map(str, found['load_after']))} after" if "load_after" in found else ""),
        )
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _librdkafka() -> str:
    try:
        from confluent_kafka import libversion
    except ImportError:
        return "missing"
    return str(libversion()[0])


def _file_system(path: str) -> str:
    """Return the type of the file system of `path`: that of the longest mount point that is a prefix."""
    best = ("", "unknown")
    real = os.path.realpath(path)
    try:
        with open("/proc/mounts", encoding="utf-8") as mounts:
            for line in mounts:
                _, point, kind, *_ = line.split()
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best[0]):
                    best = (point, kind)
    except OSError:
        pass
    return best[1]
