"""From `--master` to a Spark session: what each kind of cluster wants to be told.

| master | what runs where | how it was proved |
| --- | --- | --- |
| `local`, `local[N]`, `local[*]` | all in one JVM here, workers with this Python | run by tests |
| `spark://host:port` | executors of a standalone cluster, the driver here | run by a test, on one machine |
| `k8s://https://host:port` | executors in pods, the driver here | settings as Spark documents them |
| `yarn` | executors in containers, the driver here | settings as Spark documents them |
| `sc://host:port` | the driver is a Connect server elsewhere | the orders example, by hand, on one machine |

A Connect server has Ottla installed. Other executors get code and needs as archives (see `shipping`), and a
Python of this minor version by PYSPARK_PYTHON, which the user may set; `OTTLA_SHIP` says how much is shipped:
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
_OF_A_SESSION = ("spark.sql.", "spark.app.name")
EXECUTOR_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_KINDS = (
    ("local", re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")),
    ("standalone", re.compile(r"spark://[^/\s:]+:\d+(,[^/\s:]+:\d+)*")),
    ("kubernetes", re.compile(r"k8s://\S+")),
    ("yarn", re.compile(r"yarn")),
    ("connect", re.compile(r"sc://\S+")),
)
# Tried with Spark 4.3: artifacts of a session reach its tasks, but not the processes that plan its streams.
OTTLA_NOT_ON_SERVER = (
    "its Python has no ottla: pip install 'ottla[pipeline]' where the server and its executors run, for "
    "Spark hands nothing that a session sends to the sources of its streams"
)
EXAMPLES = "local[*], spark://host:7077, k8s://https://host:6443, yarn or sc://host:15002"


class SessionError(ValueError):
    """The master, or what it needs, in one sentence for whoever named it."""


class SessionSettings(NamedTuple):
    """Everything that makes a session; nothing is started yet."""

    kind: str
    master: str
    conf: dict[str, str]
    # For the JVM that is started here, and through it for its Python processes.
    environment: dict[str, str]
    shipment: Shipment


def master_kind(master: str) -> str:
    """Raises SessionError for what is no master."""
    for kind, shape in _KINDS:
        if shape.fullmatch(master):
            return kind
    raise SessionError(f"{master!r} is no Spark master: expected {EXAMPLES}")


def ship_mode(kind: str, environment: Mapping[str, str] = os.environ) -> str:
    """How much is shipped: nothing where workers are our own or a server's, else what OTTLA_SHIP says."""
    if kind in ("local", "connect"):
        return "nothing"
    asked = environment.get("OTTLA_SHIP", "all")
    if asked not in SHIP_MODES:
        raise SessionError(f"OTTLA_SHIP is {asked!r}: expected {', '.join(SHIP_MODES)}")
    return asked


def session_settings(
    master: str,
    app_name: str,
    conf: Mapping[str, str] | None = None,
    *,
    shipment: Shipment | None = None,
    environment: Mapping[str, str] = os.environ,
) -> SessionSettings:
    """What to tell Spark. Settings of the user stand before ours. Raises SessionError."""
    kind = master_kind(master)
    shipment = shipment or Shipment(None, None)
    ours = {"spark.app.name": app_name}
    variables: dict[str, str] = {}
    if kind != "connect":
        variables = _python_variables(kind, environment)
    if kind == "local":
        # Nobody but this machine has to reach the driver: a laptop that changes its network keeps it.
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    elif kind in ("standalone", "kubernetes", "yarn"):
        ours |= _shipping_conf(kind, shipment)
    merged = ours | dict(conf or {})
    if kind == "connect":
        # The server has its own memory, cores and scheduler: sessions may set what concerns queries.
        merged = {name: value for name, value in merged.items() if name.startswith(_OF_A_SESSION)}
    if kind == "kubernetes" and IMAGE not in merged:
        raise SessionError(f"{master}: set {IMAGE} to an image with Spark and Python {_python_version()}")
    if kind == "yarn" and not (environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")):
        raise SessionError("yarn: set HADOOP_CONF_DIR to the directory of the cluster's configuration")
    return SessionSettings(kind, master, merged, variables, shipment)


def _python_variables(kind: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Which Python runs workers, and helpers of the driver, which need our packages where they are."""
    if kind == "local":
        return {"PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON") or sys.executable}
    paths = [path for path in sys.path if os.path.isdir(path) and not _is_standard(path)]
    given = environment.get("PYTHONPATH")
    return {
        "PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON") or _executors_python(),
        "PYTHONPATH": os.pathsep.join([given, *paths] if given else paths),
    }


def _executors_python() -> str:
    """One that a machine has by name, for paths differ; but the driver's helpers must find it, too."""
    name = f"python{_python_version()}"
    return name if shutil.which(name) else os.path.realpath(sys.executable)


def _is_standard(path: str) -> bool:
    """The standard library: it comes with whichever Python it is."""
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
    needs: Sequence[str] = DEPENDENCIES,
    cache: str | None = None,
) -> SparkSession:
    """Start a session. Executors import, beside our packages, the Python files `files` and packages `needs`.

    Raises SessionError for what can be said before Spark starts, and whatever Spark raises.
    """
    # Everything that can be wrong is found before the archives are packed.
    kind = session_settings(master, app_name, conf).kind
    shipment = build_shipment(ship_mode(kind), files=files, needs=needs, cache=cache)
    return start_session(session_settings(master, app_name, conf, shipment=shipment))


def start_session(settings: SessionSettings) -> SparkSession:
    """Start what the settings say. Raises SessionError, and whatever Spark raises."""
    from pyspark.sql import SparkSession

    if settings.kind == "connect":
        _check_reachable(settings.master)
        builder = SparkSession.builder.remote(settings.master)
    else:
        builder = SparkSession.builder.master(settings.master)
        # SparkContext looks at it later, too; the rest is for the JVM alone, when it starts.
        os.environ["PYSPARK_PYTHON"] = settings.environment["PYSPARK_PYTHON"]
    for name, value in settings.conf.items():
        builder = builder.config(name, value)
    try:
        with _environment(settings.environment):
            made = builder.getOrCreate()
    except ImportError as error:
        raise SessionError(f"{settings.master}: pip install 'pyspark[connect]' ({error})") from error
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
    """Spark would try for ten minutes before it says that nobody is there."""
    place = urlsplit(master)
    address = (place.hostname or "", place.port or CONNECT_PORT)
    try:
        socket.create_connection(address, CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise SessionError(f"{master}: no Connect server at {address[0]}:{address[1]} ({error})") from None


def server_has_ottla(made: SparkSession) -> bool:
    """Whether Python on the other side of a Connect server finds our data sources."""

    # A function inside of one travels as a whole, to where nothing of ours may be.
    def look(batches: Iterator[Any]) -> Iterator[Any]:
        from importlib.util import find_spec

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"found": [find_spec("pyspark_ottla") is not None]})

    return all(row.found for row in made.range(1).mapInArrow(look, "found BOOLEAN").collect())
