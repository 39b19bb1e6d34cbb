"""A `python` for Spark's workers on this machine that starts three times as fast.

Spark puts its zipped PySpark first on the path of every Python process that it starts, and modules from a zip
are compiled anew each time: measured, 0.9 s of CPU to start one, against 0.3 s with the installed package.
Every query starts some, and Spark gives up on one that does not answer within ten seconds. So workers get a
small script that takes the zips off the path, where the same PySpark is installed.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile

SCRIPT = """\
#!/bin/sh
kept=
IFS=:
for each in $PYTHONPATH; do
  case "$each" in
    */pyspark.zip | */py4j-*-src.zip) ;;
    *) kept="$kept:$each" ;;
  esac
done
unset IFS
PYTHONPATH="${{kept#:}}"
export PYTHONPATH
exec {python} "$@"
"""


def write_script(directory: str, python: str) -> str:
    path = os.path.join(directory, "python")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SCRIPT.format(python=shlex.quote(python)))
    os.chmod(path, 0o755)
    return path


def use_fast_python(master: str) -> None:
    """For sessions on this machine, unless the user has chosen a Python."""
    import pyspark

    installed = "site-packages" in (pyspark.__file__ or "") and "SPARK_HOME" not in os.environ
    if not master.startswith("local") or "PYSPARK_PYTHON" in os.environ or not installed:
        return
    directory = tempfile.mkdtemp(prefix="ottla-python-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    os.environ["PYSPARK_PYTHON"] = write_script(directory, sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
