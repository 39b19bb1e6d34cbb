"""Creates Spark sessions: the settings that each kind of master needs.

| master | what runs where | tested |
| --- | --- | --- |
| `local`, `local[N]`, `local[*]` | everything in one local JVM, workers with this Python | by tests |
| `spark://host:port` | executors in a standalone cluster, the driver here | by a test, on one machine |
| `k8s://https://host:port` | executors in pods, the driver here | no: settings as Spark documents them |
| `yarn` | executors in containers, the driver here | no: settings as Spark documents them |
| `sc://host:port` | the driver in a Connect server | by hand, on one machine |

A Connect server must have Ottla installed. Other executors get code and dependencies as archives (see
`shipping`) and run PYSPARK_PYTHON, which must be of this minor version. OTTLA_SHIP sets what is shipped:
nothing, code or all.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ottla.pipeline.session.shipping import DEPENDENCIES, SHIP_MODES, Shipment, build_shipment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IMAGE = "spark.kubernetes.container.image"
CONNECT_PORT = 15002
CONNECT_TIMEOUT_S = 10.0
_SESSION_SETTINGS = ("spark.sql.", "spark.app.name")
EXECUTOR_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_KINDS = (
    ("local", re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")),
    ("standalone", re.compile(r"spark://[^/\s:]+:\d+(,[^/\s:]+:\d+)*")),
    ("kubernetes", re.compile(r"k8s://\S+")),
    ("yarn", re.compile(r"yarn")),
    ("connect", re.compile(r"sc://\S+")),
)
# Spark 4.3 passes the artifacts of a session to its tasks, but not to the processes that plan its streams.
OTTLA_NOT_ON_SERVER = (
    "ottla is not installed on the Connect server: run pip install 'ottla[pipeline]' there and on its "
    "executors (Spark does not pass the artifacts of a session to streaming sources)"
)
EXAMPLES = "local[*], spark://host:7077, k8s://https://host:6443, yarn or sc://host:15002"


class SessionError(ValueError):
    """The master is invalid, or something that it needs is missing."""


class SessionSettings(NamedTuple):
    """The settings of a session that is not started yet."""

    kind: str
    master: str
    conf: dict[str, str]
    # Environment variables of the driver JVM and its Python processes.
    environment: dict[str, str]
    shipment: Shipment


def master_kind(master: str) -> str:
    """Return the kind of a master URL. Raises SessionError."""
    for kind, shape in _KINDS:
        if shape.fullmatch(master):
            return kind
    raise SessionError(f"invalid Spark master {master!r}: expected {EXAMPLES}")


def ship_mode(kind: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return what to ship to executors: nothing for local and Connect masters, else OTTLA_SHIP."""
    if kind in ("local", "connect"):
        return "nothing"
    mode = environment.get("OTTLA_SHIP", "all")
    if mode not in SHIP_MODES:
        raise SessionError(f"OTTLA_SHIP is {mode!r}: expected {', '.join(SHIP_MODES)}")
    return mode


def session_settings(
    master: str,
    app_name: str,
    conf: Mapping[str, str] | None = None,
    *,
    shipment: Shipment | None = None,
    environment: Mapping[str, str] = os.environ,
) -> SessionSettings:
    """Return the settings for a master; `conf` overrides the defaults. Raises SessionError."""
    kind = master_kind(master)
    shipment = shipment or Shipment(None, None)
    defaults = {"spark.app.name": app_name}
    variables: dict[str, str] = {}
    if kind != "connect":
        variables = _python_variables(kind, environment)
    if kind == "local":
        # The loopback address stays valid if the machine changes networks.
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    elif kind in ("standalone", "kubernetes", "yarn"):
        defaults |= _shipping_conf(kind, shipment)
    merged = defaults | dict(conf or {})
    if kind == "connect":
        # Memory, cores and scheduler belong to the server: a session can set SQL options only.
        merged = {name: value for name, value in merged.items() if name.startswith(_SESSION_SETTINGS)}
    if kind == "kubernetes" and IMAGE not in merged:
        raise SessionError(f"{master}: set {IMAGE} to an image with Spark and Python {_python_version()}")
    if kind == "yarn" and not (environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")):
        raise SessionError("yarn: set HADOOP_CONF_DIR to the directory of the cluster's configuration")
    return SessionSettings(kind, master, merged, variables, shipment)


def _python_variables(kind: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the Python of workers and, for clusters, the path of the driver's own Python processes."""
    if kind == "local":
        return {"PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON") or sys.executable}
    paths = [path for path in sys.path if os.path.isdir(path) and not _is_standard(path)]
    given = environment.get("PYTHONPATH")
    return {
        "PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON") or _executor_python(),
        "PYTHONPATH": os.pathsep.join([given, *paths] if given else paths),
    }


def _executor_python() -> str:
    """Return a command name if it works here too: paths differ between machines."""
    name = f"python{_python_version()}"
    return name if shutil.which(name) else os.path.realpath(sys.executable)


def _is_standard(path: str) -> bool:
    """Return whether a path belongs to the standard library, which every Python has."""
    roots = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    real = os.path.realpath(path)
    return real in roots or os.path.basename(real) == "lib-dynload"


def _python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _shipping_conf(kind: str, shipment: Shipment) -> dict[str, str]:
    archives = ",".join(shipment.archives())
    if not archives:
        return {}
    name = "spark.yarn.dist.archives" if kind == "yarn" else "spark.archives"
    return {name: archives, EXECUTOR_PYTHON_PATH: shipment.python_path()}


def create_session(
    master: str,
    app_name: str,
    conf: Mapping[str, str] | None = None,
    *,
    files: Sequence[str] = (),
    dependencies: Sequence[str] = DEPENDENCIES,
    cache: str | None = None,
) -> SparkSession:
    """Create a session. `files` and `dependencies` are Python files and packages to ship to executors.

    Raises SessionError before Spark starts, or any exception of Spark.
    """
    # Check all settings before the archives are built.
    kind = session_settings(master, app_name, conf).kind
    shipment = build_shipment(ship_mode(kind), files=files, dependencies=dependencies, cache=cache)
    return start_session(session_settings(master, app_name, conf, shipment=shipment))


def start_session(settings: SessionSettings) -> SparkSession:
    """Start a session. Raises SessionError, or any exception of Spark."""
    from pyspark.sql import SparkSession

    if settings.kind == "connect":
        _check_reachable(settings.master)
        builder = SparkSession.builder.remote(settings.master)
    else:
        builder = SparkSession.builder.master(settings.master)
        # SparkContext reads this variable later, too; the others only matter when the JVM starts.
        os.environ["PYSPARK_PYTHON"] = settings.environment["PYSPARK_PYTHON"]
    for name, value in settings.conf.items():
        builder = builder.config(name, value)
    try:
        with _environment(settings.environment):
            made = builder.getOrCreate()
    except ImportError as error:
        raise SessionError(f"{settings.master}: run pip install 'pyspark[connect]' ({error})") from error
    if settings.kind == "connect" and not server_has_ottla(made):
        made.stop()
        raise SessionError(f"{settings.master}: {OTTLA_NOT_ON_SERVER}")
    return made


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _check_reachable(master: str) -> None:
    """Raise SessionError if the server does not accept connections: Spark would retry for ten minutes."""
    url = urlsplit(master)
    address = (url.hostname or "", url.port or CONNECT_PORT)
    try:
        socket.create_connection(address, CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise SessionError(f"{master}: no Connect server at {address[0]}:{address[1]} ({error})") from None


def server_has_ottla(made: SparkSession) -> bool:
    """Return whether the Python of a Connect server can import the data sources."""

    # A nested function is pickled by value: the server may not have this module.
    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        from importlib.util import find_spec

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"found": [find_spec("pyspark_ottla") is not None]})

    return all(row.found for row in made.range(1).mapInArrow(probe, "found BOOLEAN").collect())
