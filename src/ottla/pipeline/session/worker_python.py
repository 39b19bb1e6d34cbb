"""A `python` script for local Spark workers that starts three times as fast.

Spark puts its zipped PySpark first on the path of every Python process, and modules in a zip are compiled at
every start: measured, a start takes 0.9 s of CPU, against 0.3 s with the installed package. Every query
starts several processes, and Spark fails if one does not connect within ten seconds. The script removes the
zips from the path where the same PySpark is installed.
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
    """Use the script for local sessions, unless the user has set PYSPARK_PYTHON."""
    import pyspark

    installed = "site-packages" in (pyspark.__file__ or "") and "SPARK_HOME" not in os.environ
    if not master.startswith("local") or "PYSPARK_PYTHON" in os.environ or not installed:
        return
    directory = tempfile.mkdtemp(prefix="ottla-python-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    os.environ["PYSPARK_PYTHON"] = write_script(directory, sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
