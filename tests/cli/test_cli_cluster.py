"""`ottla cluster`: arguments, directory and supervision, with programs that only pretend to be brokers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time

import pytest

from ottla.cli.broker.arguments import UsageError
from ottla.cli.cluster.commands import build_parser, check_ports, checked_settings, main, write_properties
from ottla.cli.cluster.directory import ClusterDir, ClusterDirError
from ottla.cli.cluster.events import Events, how_it_ended
from ottla.cli.cluster.supervisor import Supervisor
from ottla.config.load import load_broker_config
from ottla.launch.local_cluster import (
    CONTROLLER_PORT_GAP,
    member_properties,
    new_cluster_id,
    planned_members,
    voter_count,
)
from ottla.protocol.uuids import uuid_from_text
from ottla.testing.ports import free_port

READY = "print('ottla 0 ready on 127.0.0.1:1234 (node 1, data in x, 1 ms)', flush=True)\n"
SERVE = READY + "sys.stdin.read()\n"


def properties_of(brokers, **settings):
    members = planned_members(brokers, 9092)
    return [
        member_properties(
            member, members, cluster_id="c" * 22, data_dir=f"/d/{member.node_id}", settings=settings
        )
        for member in members
    ]


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (100, 5)])
def test_the_number_of_voters_is_odd(brokers, voters):
    assert voter_count(brokers) == voters
    found = [row["process.roles"] for row in properties_of(brokers)]
    assert found == ["broker,controller"] * voters + ["broker"] * (brokers - voters)


@pytest.mark.parametrize("brokers", [1, 2, 3, 7])
def test_every_plan_is_a_valid_configuration_without_collisions(brokers):
    ports = set()
    rows = properties_of(brokers)
    for number, row in enumerate(rows):
        config = load_broker_config(None, row)
        assert not [text for text in config.warnings if "cluster.id" not in text]
        assert config.node_id == number
        assert [voter.node_id for voter in config.voters] == list(range(voter_count(brokers)))
        assert [endpoint.port for endpoint in config.broker_endpoints] == [9092 + number]
        if config.is_controller:
            (endpoint,) = config.controller_endpoints
            assert (endpoint.port, config.voters[number].port) == (9192 + number, 9192 + number)
        ports |= {endpoint.port for endpoint in (*config.broker_endpoints, *config.controller_endpoints)}
    assert len(ports) == brokers + voter_count(brokers)
    assert len({row["cluster.id"] for row in rows}) == 1


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (9, 3, 2)])
def test_replication_defaults_by_number_of_brokers(brokers, replicas, in_sync):
    config = load_broker_config(None, properties_of(brokers)[0])
    for name in ("default", "offsets.topic", "transaction.state.log"):
        assert config.get(f"{name}.replication.factor") == replicas
    assert config.get("min.insync.replicas") == config.get("transaction.state.log.min.isr") == in_sync
    own = properties_of(brokers, **{"default.replication.factor": "1", "num.partitions": "7"})[0]
    assert (own["default.replication.factor"], own["num.partitions"]) == ("1", "7")


def test_cluster_ids_are_uuids():
    ids = {new_cluster_id() for _ in range(300)}
    assert len(ids) == 300
    assert not [text for text in ids if text.startswith("-")]
    for text in ids:
        uuid_from_text(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--brokers", "0"], "--brokers 0: expected 1 to 100"),
        (["--brokers", "101"], "--brokers 101"),
        (["--base-port", "65500"], "--base-port 65500: expected 1 to 65433"),
        (["--base-port", "0"], "--base-port 0"),
        (["--set", "node.id=3"], "--set node.id=...: differs between brokers"),
        (["--set", "log.dirs=/x"], "--set log.dirs"),
        (["--set", "oops"], "expected KEY=VALUE"),
    ],
)
def test_invalid_arguments_are_reported(arguments, said, capsys):
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        checked_settings(build_parser().parse_args(arguments))
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_an_invalid_setting_is_reported_before_the_start(tmp_path, capsys):
    port = free_port()
    assert main(["--data", str(tmp_path), "--base-port", str(port), "--set", "num.partitions=many"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ottla cluster: num.partitions=many: ")


def test_an_unknown_command_is_reported(capsys):
    with pytest.raises(SystemExit) as end:
        main(["stats"])
    assert end.value.code == 2
    assert "unknown command 'stats'" in capsys.readouterr().err


def test_a_port_in_use_is_reported():
    members = planned_members(2, free_port())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", members[1].controller_port))
        taken.listen()
        with pytest.raises(
            OSError, match=f"port {members[1].controller_port} for broker 1: address already in"
        ):
            check_ports(members)
    assert members[1].controller_port == members[1].client_port + CONTROLLER_PORT_GAP


def test_two_phase_commit_is_enabled_unless_it_is_set():
    name = "transaction.two.phase.commit.enable"
    assert checked_settings(build_parser().parse_args([]))[name] == "true"
    assert checked_settings(build_parser().parse_args(["--set", f"{name}=false"]))[name] == "false"


def test_properties_files_match_the_plan(tmp_path):
    path = tmp_path / "broker-0" / "server.properties"
    given = {"a": "x\\y", "b": "1=2, #3", "c": ""}
    write_properties(str(path), given)
    from ottla.config.properties import parse_properties

    assert dict(parse_properties(path.read_text())) == given


# The directory.


def opened(path, brokers):
    directory = ClusterDir(str(path), brokers)
    directory.close()
    return directory.cluster_id


def test_a_directory_keeps_its_cluster(tmp_path):
    first = opened(tmp_path / "new", 3)
    assert opened(tmp_path / "new", 3) == first
    assert opened(tmp_path / "new", 4) == first
    assert opened(tmp_path / "other", 3) != first
    with pytest.raises(ClusterDirError, match=r"--brokers 3: .* cluster of 4.*use --brokers 4 or more"):
        opened(tmp_path / "new", 3)
    with pytest.raises(
        ClusterDirError, match=r"--brokers 5: .*3 voters, 5 brokers would have 5.*--brokers 4,"
    ):
        opened(tmp_path / "new", 5)


def test_a_directory_with_other_data_is_rejected(tmp_path):
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    with pytest.raises(ClusterDirError, match="contains the data of a single `ottla serve`"):
        opened(tmp_path, 3)
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterDirError, match="file: File exists"):
        opened(tmp_path / "file", 3)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "cluster.json").write_text("{}")
    with pytest.raises(ClusterDirError, match=r"cluster\.json: invalid file"):
        opened(tmp_path / "broken", 3)


def test_one_supervisor_at_a_time(tmp_path):
    directory = ClusterDir(str(tmp_path), 3)
    with pytest.raises(ClusterDirError, match=rf"another `ottla cluster` \(pid {os.getpid()}\) uses it"):
        ClusterDir(str(tmp_path), 3)
    directory.close()
    assert opened(tmp_path, 3) == directory.cluster_id


def test_a_large_log_is_rotated(tmp_path, monkeypatch):
    monkeypatch.setattr("ottla.cli.cluster.directory.LOG_BYTES_MAX", 10)
    directory = ClusterDir(str(tmp_path), 1)
    directory.prepare(0)
    log = tmp_path / "broker-0" / "broker.log"
    log.write_text("a long log of many days")
    directory.prepare(0)
    assert not log.exists()
    assert (tmp_path / "broker-0" / "broker.log.1").read_text().startswith("a long")
    directory.close()


# Supervision.


class Heard(Events):
    """Events as a list, with a wait for one of them."""

    def __init__(self):
        super().__init__(as_json=True)
        self.all = []
        self.at_s = []
        self._wanted = {}

    def _print(self, line):
        event = json.loads(line)
        self.all.append(event)
        self.at_s.append(time.monotonic())
        for future in self._wanted.pop(event["event"], ()):
            if not future.done():
                future.set_result(event)

    async def wait_for(self, name):
        future = asyncio.get_running_loop().create_future()
        self._wanted.setdefault(name, []).append(future)
        async with asyncio.timeout(20):
            return await future

    def names(self, broker=None):
        return [event["event"] for event in self.all if broker is None or event.get("broker") == broker]


@pytest.fixture
def supervise(tmp_path):
    """Run `story(events)` with a supervisor of fake members; return the exit code and the events."""

    def run(programs, story, **options):
        async def whole():
            events = Heard()
            directory = ClusterDir(str(tmp_path / "cluster"), len(programs))
            prelude = "import os, signal, sys, time\n"
            supervisor = Supervisor(
                planned_members(len(programs), 9092),
                directory,
                events,
                lambda member: [sys.executable, "-c", prelude + programs[member.node_id]],
                restart_first_s=0.05,
                **options,
            )
            running = asyncio.create_task(supervisor.run())
            try:
                await story(events)
                async with asyncio.timeout(20):
                    return await running, events
            finally:
                directory.close()

        return asyncio.run(whole())

    return run


def stop_now():
    os.kill(os.getpid(), signal.SIGTERM)


STOP_ON_TERM = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + SERVE


def test_brokers_are_started_reported_ready_and_stopped(supervise):
    async def story(events):
        ready = await events.wait_for("ready")
        assert ready["bootstrap_servers"] == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
        stop_now()

    code, events = supervise([STOP_ON_TERM] * 3, story)
    assert code == 0
    for broker in range(3):
        assert events.names(broker) == ["broker-starting", "broker-ready", "broker-stopped"]
    assert events.names().count("ready") == 1
    assert events.names()[0] == "starting"
    assert events.names()[-1] == "stopped"


def test_a_member_that_dies_is_restarted(supervise):
    async def story(events):
        await events.wait_for("ready")
        pid = next(event["pid"] for event in events.all if event.get("broker") == 1)
        os.kill(pid, signal.SIGKILL)
        died = await events.wait_for("died")
        assert (died["broker"], died["how"]) == (1, "killed by SIGKILL")
        assert died["log_tail"] == []
        await events.wait_for("ready")
        stop_now()

    code, events = supervise([STOP_ON_TERM] * 2, story)
    assert code == 0
    assert events.names(1).count("broker-ready") == 2
    assert events.names(0).count("broker-ready") == 1


def test_restarts_of_a_crashing_member_back_off(supervise):
    async def story(events):
        for _ in range(4):
            died = await events.wait_for("died")
        assert died["log_tail"] == ["the disk is full"] * 4
        stop_now()

    failing = "print('the disk is full', file=sys.stderr); sys.exit(1)"
    _, events = supervise([STOP_ON_TERM, failing], story)
    deaths = [event for event in events.all if event["event"] == "died"]
    assert [event["then"] for event in deaths[:4]] == [
        f"restarting in {pause} s" for pause in ("0.05", "0.1", "0.2", "0.4")
    ]
    starts = [
        at_s
        for at_s, event in zip(events.at_s, events.all, strict=True)
        if event["event"] == "broker-starting" and event["broker"] == 1
    ]
    assert starts[3] - starts[2] > 0.2


def test_no_restart_ends_when_the_last_broker_has_died(supervise):
    async def story(events):
        await events.wait_for("died")

    code, events = supervise(["sys.exit(1)", READY + "sys.exit(0)"], story, restart=False)
    assert code == 1
    assert events.names().count("broker-starting") == 2
    assert events.names().count("died") == 2


def test_an_invalid_broker_configuration_stops_the_cluster(supervise):
    async def story(events):
        died = await events.wait_for("died")
        assert died["log_tail"] == ["ottla serve: no.such=1"]

    refused = "print('ottla serve: no.such=1', file=sys.stderr); sys.exit(2)"
    code, events = supervise([STOP_ON_TERM, refused], story)
    assert code == 2
    assert events.names(1).count("broker-starting") == 1


def test_exits_during_a_stop_do_not_hide_its_reason(supervise):
    async def story(events):
        await events.wait_for("died")

    refused = "time.sleep(0.3); sys.exit(2)"  # long enough for the other to start; ignores SIGTERM
    code, events = supervise(["time.sleep(60)", refused], story)
    assert code == 2
    assert [event["exit_code"] for event in events.all if event["event"] == "broker-stopped"] == [
        -signal.SIGTERM
    ]


DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "time.sleep(60)\n"


def test_a_broker_that_does_not_stop_is_killed(supervise):
    async def story(events):
        await events.wait_for("ready")
        stop_now()

    code, events = supervise([STOP_ON_TERM, DEAF], story, stop_timeout_s=0.3)
    assert code == 1
    assert events.names(0)[-1] == "broker-stopped"
    assert events.names(1)[-2:] == ["killing", "broker-stopped"]


def test_a_second_signal_does_not_wait(supervise):
    async def story(events):
        await events.wait_for("ready")
        stop_now()
        await events.wait_for("stopping")
        stop_now()

    started = time.monotonic()
    code, events = supervise([DEAF, DEAF], story)
    assert code == 1
    assert time.monotonic() - started < 15
    assert events.names().count("killing") == 2


def test_a_paused_member_is_resumed_to_stop(supervise):
    async def story(events):
        await events.wait_for("ready")
        pid = next(event["pid"] for event in events.all if event.get("broker") == 0)
        os.kill(pid, signal.SIGSTOP)
        stop_now()

    assert supervise([STOP_ON_TERM], story)[0] == 0


def test_text_output(capsys, tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {n}\n" for n in range(50)))
    events = Events(as_json=False)
    events.emit("ready", "ready: 3 brokers", brokers=3)
    events.died(1, -9, "restarting in 1 s", str(log), was_ready=True)
    events.died(2, 3, "restarting in 1 s", str(log), was_ready=False)
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "ready: 3 brokers",
        f"broker 1 died (killed by SIGKILL), restarting in 1 s; its log: {log}",
        f"broker 2 died (exit code 3), restarting in 1 s; its log: {log}",
    ]
    tail = captured.err.splitlines()
    assert len(tail) == 20
    assert tail[-1] == "broker 2 | line 49"
    assert how_it_ended(-200) == "killed by signal 200"
