"""The commands against a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from ottla.testing.ports import free_port


@pytest.fixture
def shell(ottla_cluster):
    """Run a command as a process, with bytes on stdin."""

    def run(*arguments, stdin=b"", expect=0):
        result = subprocess.run(
            [sys.executable, "-m", "ottla", *arguments],
            input=stdin,
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, "OTTLA_BOOTSTRAP": ottla_cluster.bootstrap_servers},
        )
        assert result.returncode == expect, result.stderr.decode()
        return result.stdout if expect == 0 else result.stderr

    return run


def test_topic_create_list_alter_delete(ottla):
    code, out, _ = ottla(
        "topic", "create", "life", "-p", "3", "-c", "retention.ms=9000", "-c", "segment.bytes=1048576"
    )
    assert (code, out) == (0, "Created topic life with 3 partitions\n")
    code, out, _ = ottla("topic", "list")
    assert code == 0
    assert any(row.split() == ["life", "3", "1"] for row in out.splitlines())

    code, _, err = ottla("topic", "create", "life")
    assert code == 1
    assert err.startswith("ottla: topic 'life': TOPIC_ALREADY_EXISTS (36)")
    code, out, _ = ottla("topic", "create", "life", "--if-not-exists")
    assert (code, out) == (0, "Topic life already exists\n")

    code, out, _ = ottla(
        "topic", "alter", "life", "--set", "retention.ms=8000", "--unset", "segment.bytes", "-p", "5"
    )
    assert (code, out) == (0, "Altered topic life: retention.ms=8000, segment.bytes unset, 5 partitions\n")
    code, out, _ = ottla("topic", "describe", "life", "--json")
    (topic,) = json.loads(out)["topics"]
    assert topic["configs"] == {"retention.ms": {"value": "8000", "source": "topic"}}
    assert [row["partition"] for row in topic["partitions"]] == [0, 1, 2, 3, 4]
    assert {row["leader"] for row in topic["partitions"]} == {1}

    code, out, _ = ottla("topic", "delete", "life", "--yes")
    assert (code, out) == (0, "Deleted topic life\n")
    code, _, err = ottla("topic", "describe", "life")
    assert code == 1
    assert "topic 'life'" in err
    code, out, _ = ottla("topic", "delete", "life", "--yes", "--if-exists")
    assert (code, out) == (0, "Topic life does not exist\n")


def test_json_output_of_all_commands(ottla):
    code, out, _ = ottla("topic", "create", "json-a", "json-b", "--json")
    created = json.loads(out)
    assert [row["name"] for row in created["created"]] == ["json-a", "json-b"]
    assert all(len(row["id"]) == 22 for row in created["created"])
    code, out, _ = ottla("topic", "list", "--json")
    assert {"json-a", "json-b"} <= {row["name"] for row in json.loads(out)["topics"]}
    code, out, _ = ottla("topic", "alter", "json-a", "--partitions", "2", "--json")
    assert json.loads(out) == {"topic": "json-a", "set": {}, "unset": [], "partitions": 2}
    code, out, _ = ottla("topic", "delete", "json-a", "json-b", "json-c", "--if-exists", "--json")
    assert json.loads(out) == {"deleted": ["json-a", "json-b"], "missing": ["json-c"]}
    code, _, err = ottla("topic", "describe", "json-a", "--json")
    assert code == 1
    assert json.loads(err)["code"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_dry_run_creates_nothing(ottla):
    code, out, _ = ottla("topic", "create", "dry", "--dry-run")
    assert code == 0
    assert out.startswith("Could create topic dry")
    assert ottla("topic", "describe", "dry")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topic", "create", "bad name"], "'bad name'"),
        (["topic", "create", "t-bad-config", "-c", "retention.ms=soon"], "retention.ms"),
        (["topic", "create", "t-bad-key", "-c", "no.such.config=1"], "no.such.config"),
        (["topic", "create", "t-bad-replicas", "-r", "5"], "t-bad-replicas"),
        (["topic", "alter", "nowhere", "--set", "retention.ms=1"], "'nowhere'"),
        (["topic", "delete", "nowhere", "-y"], "'nowhere'"),
        (["consume", "nowhere"], "'nowhere'"),
    ],
)
def test_errors_name_the_topic_or_option(ottla, arguments, said):
    code, out, err = ottla(*arguments)
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_misspelt_topic_gets_a_suggestion(ottla, ottla_topic):
    _, _, err = ottla("topic", "describe", ottla_topic[:-1])
    assert f"did you mean {ottla_topic!r}?" in err


def test_describe_shows_offsets_and_sizes(ottla, shell, ottla_topic):
    shell("produce", ottla_topic, stdin=b"one\ntwo\n")
    code, out, _ = ottla("topic", "describe", ottla_topic)
    assert code == 0
    head, identity, columns, row, *configs = out.splitlines()
    assert head.startswith(f"{ottla_topic}  1 partition, replication factor 1, 2 offsets, ")
    assert identity.startswith("id ")
    replica_columns = ["replicas", "in", "sync", "elr"]
    assert columns.split() == ["partition", "leader", "epoch", *replica_columns, "start", "end", "size"]
    assert row.split()[:8] == ["0", "1", "0", "1", "1", "-", "0", "2"]
    assert configs == []
    _, out, _ = ottla("topic", "describe", ottla_topic, "--all-configs")
    assert "cleanup.policy = delete" in out


def test_produced_lines_are_consumed(shell, ottla_topic):
    shell("produce", ottla_topic, stdin=b"first\n\nlast without line end")
    assert shell("consume", ottla_topic, "--until-end") == b"first\n\nlast without line end\n"
    assert shell("consume", ottla_topic, "--max", "1") == b"first\n"
    assert shell("consume", ottla_topic, "--from=-1", "--timeout", "0.2") == b"last without line end\n"
    assert shell("consume", ottla_topic, "--from", "end", "--timeout", "0.1") == b""
    assert shell("consume", ottla_topic, "--from", "1", "-n", "1", "--offsets") == b"0:1\t\n"


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_many_lines_with_every_codec(shell, ottla_topic, compression):
    lines = b"".join(b"%d some text that repeats itself\n" % n for n in range(5000))
    out = shell("produce", ottla_topic, "-z", compression, "--json", stdin=lines)
    report = json.loads(out)
    assert report["records"] == 5000
    assert report["partitions"] == {"0": {"records": 5000, "first_offset": 0, "last_offset": 4999}}
    assert shell("consume", ottla_topic, "--until-end") == lines


@pytest.mark.ottla_topic(partitions=3)
def test_keys_headers_partitions_and_binary(shell, ottla_topic):
    shell("produce", ottla_topic, "-k", ":", "-p", "2", "--header", "h=x", stdin=b"k\xff:v\xfe\n")
    out = shell("consume", ottla_topic, "--until-end", "--keys", "--headers", "--offsets")
    assert out == b"2:0\th=x\tk\xff\tv\xfe\n"
    assert shell("consume", ottla_topic, "--until-end", "-p", "0", "-p", "1") == b""
    row = json.loads(shell("consume", ottla_topic, "--until-end", "--json"))
    assert row["key_base64"] == "a/8="
    assert row["headers"] == [{"name": "h", "value": "x"}]
    copy = json.dumps({**row, "partition": 1}).encode()
    shell(
        "produce",
        ottla_topic,
        "--format",
        "json",
        stdin=copy + b'\n{"value": null, "key": "gone", "partition": 1}\n',
    )
    out = shell(
        "consume", ottla_topic, "-p", "1", "--until-end", "--template", "{offset} {key}={value} {headers}"
    )
    assert out == b"0 k\xff=v\xfe h=x\n1 gone=null \n"


def test_errors_name_the_input_line(shell, ottla_topic):
    err = shell("produce", ottla_topic, "--key-separator", ":", stdin=b"a:b\nnokey\n", expect=1)
    assert b"line 2 of stdin: it does not contain the key separator ':'" in err
    err = shell("produce", ottla_topic, "--format", "json", stdin=b'{"value": "v"}\n[]\n', expect=1)
    assert b"line 2 of stdin: expected an object" in err


def test_a_closed_output_pipe_is_not_an_error(shell, ottla_cluster, ottla_topic):
    shell("produce", ottla_topic, stdin=b"x" * 100 + b"\n" + b"y\n" * 100_000)
    command = f"{sys.executable} -m ottla consume {ottla_topic} --until-end | head -n 1"
    env = {**os.environ, "OTTLA_BOOTSTRAP": ottla_cluster.bootstrap_servers}
    result = subprocess.run(command, shell=True, capture_output=True, env=env, timeout=60, check=True)
    assert result.stdout == b"x" * 100 + b"\n"
    assert result.stderr == b""


def test_consume_exits_cleanly_on_ctrl_c(ottla_cluster, shell, ottla_topic):
    shell("produce", ottla_topic, stdin=b"x\n")
    command = [sys.executable, "-m", "ottla", "consume", ottla_topic, "-b", ottla_cluster.bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"x\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_a_ready_line_and_stops_cleanly(tmp_path, how):
    port = free_port()
    command = [sys.executable, "-m", "ottla", "serve", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        line = process.stdout.readline().decode()
        assert line.startswith("ottla 0.")
        assert f" ready on 127.0.0.1:{port} (node 1, data in ottla-data, " in line
        process.send_signal(how)
        assert process.wait(20) == 0
        assert process.stdout.read() == b""
    assert (tmp_path / "ottla-data").is_dir()


def test_serve_reports_a_port_in_use(ottla_cluster, tmp_path):
    command = [sys.executable, "-m", "ottla", "serve", "--listen", ottla_cluster.bootstrap_servers]
    result = subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=30, check=False, text=True)
    assert result.returncode == 1
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ottla serve: ")
    assert "--listen" in last
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("problem", ["in use", "a file"])
def test_serve_reports_an_unusable_data_directory(ottla_cluster, tmp_path, problem):
    data = tmp_path / "file"
    data.write_text("not a directory")
    command = [sys.executable, "-m", "ottla", "serve", "--listen", "127.0.0.1:0", "--data"]
    command.append(ottla_cluster.data_dir if problem == "in use" else str(data))
    result = subprocess.run(command, capture_output=True, timeout=30, check=False, text=True)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith(f"ottla serve: {command[-1]}: ")
    assert "Traceback" not in result.stderr


def test_serve_with_port_0_and_a_properties_file(tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text(f"node.id=7\nlog.dirs={tmp_path / 'one'},{tmp_path / 'two'}\nno.such.property=1\n")
    command = [sys.executable, "-m", "ottla", "serve", "--config", str(properties), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert " ready on 127.0.0.1:" in line
        assert "127.0.0.1:0 " not in line
        assert f"(node 7, data in {tmp_path / 'one'}, {tmp_path / 'two'}, " in line
        process.terminate()
        assert process.wait(20) == 0
        assert "no.such.property" in process.stderr.read()
