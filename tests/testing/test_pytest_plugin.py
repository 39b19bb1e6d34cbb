"""The fixtures, used as in a project that depends on ottla."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from ottla.client import Admin
from ottla.testing.topics import topic_name_for


def describe(cluster, topic):
    async def work():
        async with Admin(cluster.bootstrap_servers) as admin:
            (info,) = await admin.describe_topics([topic])
            configs = (await admin.describe_topic_configs([topic]))[topic]
            return len(info.partitions), {entry.name: entry.value for entry in configs}

    return asyncio.run(work())


def test_the_topic_exists_and_is_named_after_its_test(ottla_cluster, ottla_topic):
    assert ottla_topic.startswith("test_the_topic_exists_and_is_named_after_its_test-")
    assert describe(ottla_cluster, ottla_topic)[0] == 1


@pytest.mark.ottla_topic(partitions=3, config={"retention.ms": 1234, "preallocate": True})
def test_the_marker_chooses_partitions_and_config(ottla_cluster, ottla_topic):
    partitions, configs = describe(ottla_cluster, ottla_topic)
    assert partitions == 3
    assert configs["retention.ms"] == "1234"
    assert configs["preallocate"] == "true"


@pytest.mark.parametrize("name", ["test[a/b c]", "x" * 400, "täst", ".", "--", ""])
def test_any_test_name_gives_a_valid_topic_name(name):
    first, second = topic_name_for(name), topic_name_for(name)
    assert first != second
    assert 1 <= len(first) <= 249
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in first)


def test_loading_the_plugin_imports_nothing_heavy():
    code = (
        "import sys, pytest; before = set(sys.modules); import ottla.testing.pytest_plugin\n"
        "loaded = {name for name in set(sys.modules) - before if name.startswith('ottla')}\n"
        "assert loaded <= {'ottla', 'ottla.testing', 'ottla.testing.pytest_plugin'}, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_invalid_marker_is_reported(tmp_path):
    file = tmp_path / "test_wrong.py"
    file.write_text(
        "import pytest\n\n"
        "@pytest.fixture(scope='session')\n"
        "def ottla_cluster():\n    return None\n\n"
        "@pytest.mark.ottla_topic(replicas=2)\n"
        "def test_it(ottla_topic):\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 1
    assert "takes partitions= and config=, not replicas" in result.stdout
