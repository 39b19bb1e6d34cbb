"""Session settings for each kind of master; Spark is not started."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec

import pytest

from ottla.pipeline.session import spark_session
from ottla.pipeline.session.shipping import Shipment
from ottla.pipeline.session.spark_session import SessionError, master_kind, session_settings, ship_mode

SHIPMENT = Shipment("/cache/code.zip", "/cache/dependencies.tar.gz")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        ("local", "local"),
        ("local[*]", "local"),
        ("local[4]", "local"),
        ("local[4, 2]", "local"),
        ("spark://host:7077", "standalone"),
        ("spark://one:7077,two:7077", "standalone"),
        ("k8s://https://host:6443", "kubernetes"),
        ("yarn", "yarn"),
        ("sc://host:15002/;token=x", "connect"),
    ],
)
def test_master_kinds(master, kind):
    assert master_kind(master) == kind


@pytest.mark.parametrize(
    "master", ["", "local[", "local[x]", "spark://host", "http://host:1", "yarn-client", "mesos://h:1"]
)
def test_invalid_masters(master):
    with pytest.raises(SessionError, match=r"invalid Spark master .*: expected local"):
        master_kind(master)


def test_local_ships_nothing_and_uses_this_python():
    settings = session_settings("local[2]", "orders", {"spark.ui.enabled": "false"}, environment={})
    assert settings.conf == {
        "spark.app.name": "orders",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    assert settings.environment == {"PYSPARK_PYTHON": sys.executable}
    assert ship_mode("local", {"OTTLA_SHIP": "all"}) == "nothing"


def test_standalone_ships_archives(monkeypatch):
    monkeypatch.setattr(spark_session.shutil, "which", lambda name: f"/usr/bin/{name}")
    settings = session_settings("spark://host:7077", "orders", shipment=SHIPMENT, environment={})
    assert (
        settings.conf["spark.archives"]
        == "/cache/code.zip#ottla_code,/cache/dependencies.tar.gz#ottla_dependencies"
    )
    assert settings.conf["spark.executorEnv.PYTHONPATH"] == f"ottla_code{os.pathsep}ottla_dependencies"
    assert "spark.driver.host" not in settings.conf
    assert settings.environment["PYSPARK_PYTHON"] == f"python{VERSION}"
    # Spark runs the driver's Python processes with the executors' Python: packages are on the path, the
    # standard library is not.
    paths = settings.environment["PYTHONPATH"].split(os.pathsep)
    assert any(os.path.isdir(os.path.join(path, "ottla")) for path in paths)
    assert not any(os.path.exists(os.path.join(path, "asyncio")) for path in paths)


def test_user_settings_override_defaults():
    environment = {"PYSPARK_PYTHON": "/opt/python", "PYTHONPATH": "/mine"}
    conf = {"spark.app.name": "other", "spark.driver.host": "10.0.0.1"}
    settings = session_settings(
        "spark://host:7077", "orders", conf, shipment=SHIPMENT, environment=environment
    )
    assert settings.conf["spark.app.name"] == "other"
    assert settings.conf["spark.driver.host"] == "10.0.0.1"
    assert settings.environment["PYSPARK_PYTHON"] == "/opt/python"
    assert settings.environment["PYTHONPATH"].startswith(f"/mine{os.pathsep}")


def test_executor_python_falls_back_to_the_driver_python(monkeypatch):
    monkeypatch.setattr(spark_session.shutil, "which", lambda name: None)
    settings = session_settings("spark://host:7077", "orders", shipment=SHIPMENT, environment={})
    assert settings.environment["PYSPARK_PYTHON"] == os.path.realpath(sys.executable)


def test_ship_mode():
    assert ship_mode("standalone", {}) == "all"
    assert ship_mode("yarn", {"OTTLA_SHIP": "code"}) == "code"
    with pytest.raises(SessionError, match="OTTLA_SHIP is 'some': expected nothing, code, all"):
        ship_mode("yarn", {"OTTLA_SHIP": "some"})
    settings = session_settings("spark://host:7077", "orders", shipment=Shipment(None, None), environment={})
    assert "spark.archives" not in settings.conf


def test_kubernetes_needs_an_image():
    with pytest.raises(SessionError, match=r"set spark\.kubernetes\.container\.image to an image with Spark"):
        session_settings("k8s://https://host:6443", "orders", shipment=SHIPMENT)
    conf = {"spark.kubernetes.container.image": "spark:4"}
    settings = session_settings("k8s://https://host:6443", "orders", conf, shipment=SHIPMENT)
    assert settings.conf["spark.archives"].startswith("/cache/code.zip#")


def test_yarn_needs_its_configuration():
    with pytest.raises(SessionError, match="set HADOOP_CONF_DIR"):
        session_settings("yarn", "orders", shipment=SHIPMENT, environment={})
    settings = session_settings(
        "yarn", "orders", shipment=SHIPMENT, environment={"HADOOP_CONF_DIR": "/etc/hadoop"}
    )
    assert settings.conf["spark.yarn.dist.archives"] == ",".join(SHIPMENT.archives())
    assert "spark.archives" not in settings.conf


def test_connect_gets_session_settings_only():
    settings = session_settings(
        "sc://host:15002",
        "orders",
        {"spark.sql.shuffle.partitions": "2", "spark.scheduler.mode": "FAIR"},
        shipment=SHIPMENT,
    )
    assert settings.environment == {}
    assert set(settings.conf) == {"spark.app.name", "spark.sql.shuffle.partitions"}
    assert ship_mode("connect", {"OTTLA_SHIP": "all"}) == "nothing"


def test_connect_server_not_reachable():
    pytest.importorskip("pyspark")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, but not listening
        port = bound.getsockname()[1]
        with pytest.raises(SessionError, match=f"no Connect server at 127.0.0.1:{port}"):
            spark_session.create_session(f"sc://127.0.0.1:{port}/;user_id=me", "orders")


@pytest.mark.skipif(find_spec("grpc") is not None, reason="what Connect needs is installed")
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_connect_without_grpc():
    pytest.importorskip("pyspark")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        master = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(SessionError, match=rf"{master}: run pip install 'pyspark\[connect\]'"):
            spark_session.create_session(master, "orders")


def test_settings_are_checked_before_archives_are_built(monkeypatch):
    monkeypatch.setattr(spark_session, "build_shipment", lambda *_, **__: pytest.fail("packed"))
    with pytest.raises(SessionError):
        spark_session.create_session("k8s://https://host:6443", "orders")
