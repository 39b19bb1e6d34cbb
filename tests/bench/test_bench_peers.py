"""The comparison with Apache Kafka: arithmetic, report, and scenarios with minimal sizes, only Ottla."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.peers.behind import behind
from bench.peers.charts import Bar, bar_chart
from bench.peers.contest import SMOKE, Entry, Measure, Shapes
from bench.peers.jars import HOME, KAFKA, NoKafka, class_path, find_kafka
from bench.peers.reasons import REASONS, Reason
from bench.peers.report import main as report_main
from bench.peers.report import write_report
from bench.peers.results import Part, read_parts
from bench.peers.scenarios import BY_NAME, SCENARIOS
from bench.peers.scenarios.produce import Shape, shapes
from bench.peers.table import as_table

ROOT = Path(__file__).resolve().parents[2]
TOO_LONG = ("groups", "failover", "start-three", "produce-replicated", "latency", "partitions", "spark")

LESS = Measure("s", goal=1)
MORE = Measure("MB/s", less_is_better=False, goal=0.7)


def test_an_advantage_above_one_is_better() -> None:
    assert Entry("x", "time", LESS, [1.0, 3.0, 2.0], [4.0]).advantage == 2.0
    assert Entry("x", "rate", MORE, [100.0], [50.0]).advantage == 2.0
    assert Entry("x", "rate", MORE, [100.0], []).advantage is None


def test_verdict_follows_the_goal() -> None:
    assert Entry("x", "rate", MORE, [75.0], [100.0]).verdict == "ok"
    assert Entry("x", "rate", MORE, [65.0], [100.0]).verdict == "BEHIND"
    assert Entry("x", "rate", MORE, [65.0], []).verdict == ""


def part(entries: list[Entry], time: str = "2026-01-01T00:00:00") -> Part:
    about = {"seconds": 1, "rounds": 1, "warm_ups": 0, "load_before": 0.5, "load_after": 1.5}
    found = {
        "time": time,
        "packages": {"ottla": "0"},
        "machine": "m",
        "memory_gb": 1,
        "system": "s",
        "python": "p",
        "kernel_compiled": True,
        "kafka": "k",
        "librdkafka": "l",
        "data": "ext4",
        "scenarios": {entry.scenario: about for entry in entries},
    }
    return Part(found, entries)


def test_report_names_losses_before_the_tables(tmp_path: Path) -> None:
    name = SCENARIOS[0].name
    entries = [
        Entry(name, "won", LESS, [1.0], [2.0]),
        Entry(name, "lost", LESS, [2.0], [1.0]),
        Entry(name, "level", Measure("MB", aside=True), [1.0], [1.01]),
    ]
    path = tmp_path / "report.md"
    write_report(str(path), [part(entries)])
    text = path.read_text()
    lost, tables = text.split("## Where Ottla is behind")[1].split(f"## {SCENARIOS[0].title}")
    assert f"- {name}, lost: 0.500 x, goal 1 **missed**\n\nThe reason is not known yet." in lost
    assert "won" not in lost and "level" not in lost
    assert tables.index("| won |") < tables.index("| lost |") < tables.index("<details>")
    assert tables.index("<details>") < tables.index("| level |")
    assert "BEHIND" in as_table(entries)
    for chart in (name, "overview"):
        assert f"(benchmarks/{chart}.svg)" in text
        ElementTree.parse(tmp_path / "benchmarks" / f"{chart}.svg")


def test_a_report_is_reproducible_from_its_figures(tmp_path: Path) -> None:
    first, second = SCENARIOS[0].name, SCENARIOS[1].name
    old = part([Entry(first, "f", LESS, [1.0], [2.0]), Entry(second, "f", LESS, [1.0], [3.0])], "old time")
    new = part([Entry(second, "f", LESS, [1.0], [4.0])], "new time")
    path = tmp_path / "report.md"
    write_report(str(path), [old, new])
    before = path.read_text()
    assert f"old time: {first}\n" in before and f"new time: {second}\n" in before
    figures = tmp_path / "benchmarks" / "figures.json"
    assert report_main([str(figures), "--report", str(path)]) == 0
    assert path.read_text() == before
    entries = [entry for each in read_parts(str(figures)) for entry in each.entries]
    assert [(entry.scenario, entry.advantage) for entry in entries] == [(first, 2.0), (second, 4.0)]


def test_a_report_of_ottla_alone_says_so_and_has_no_charts(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_report(str(path), [part([Entry(SCENARIOS[0].name, "f", LESS, [1.0], [])])])
    assert "Only Ottla was measured" in path.read_text()
    assert "only Ottla was measured" in path.read_text()
    assert ".svg" not in path.read_text()
    assert os.listdir(tmp_path / "benchmarks") == ["figures.json"]


def test_losses_are_grouped_by_reason() -> None:
    losses = [Entry("small", figure, LESS, [2.0], [1.0]) for figure in ("alone: CPU", "odd", "many: CPU")]
    reasons = [Reason("sm*", "*: CPU", "It is so.", "50 %  somewhere")]
    text = "\n".join(behind(losses, reasons))
    assert text.index("alone: CPU") < text.index("many: CPU") < text.index("It is so.")
    assert text.index("It is so.") < text.index("50 %  somewhere") < text.index("odd")
    assert text.index("odd") < text.index("The reason is not known yet.")


def test_every_reason_is_about_a_scenario_that_exists() -> None:
    for reason in REASONS:
        assert fnmatch.filter(BY_NAME, reason.scenario), reason


def test_a_chart_draws_a_loss_as_large_as_a_win() -> None:
    root = ElementTree.fromstring(bar_chart([Bar("won", 4.0, 3.0, 5.0), Bar("lost", 0.25, 0.2, 0.3)]))
    won, lost = root.findall("{http://www.w3.org/2000/svg}rect")
    assert won.get("width") == lost.get("width")
    assert won.get("fill") != lost.get("fill")
    assert float(lost.get("x", "")) + float(lost.get("width", "")) == float(won.get("x", ""))


def test_each_dimension_is_varied_alone_unless_thorough() -> None:
    few = list(shapes(SMOKE))
    assert few[0] == Shape()
    assert len(few) == len(set(few)) == 1 + 2 + 3 + 2 + 1 + 3
    assert {shape.acks for shape in few} == {"1", "all"}
    assert Shape(record="100 KB", batch="1 MB") in few
    assert len(list(shapes(SMOKE._replace(shapes=Shapes.FEW)))) == 3
    assert len(list(shapes(SMOKE._replace(shapes=Shapes.EVERY)))) == 3 * 3 * 3 * 2 * 2


def test_error_names_a_kafka_home_without_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    monkeypatch.setenv(HOME, str(tmp_path))
    with pytest.raises(NoKafka, match=str(tmp_path)):
        find_kafka()


def test_error_without_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoKafka, match="mvn"):
        class_path(KAFKA)


@pytest.mark.skipif(shutil.which("cc") is None, reason="small requests need a C compiler")
def test_scenarios_run_with_ottla_alone_where_there_is_no_kafka(tmp_path: Path) -> None:
    wanted = [name for name in BY_NAME if name not in TOO_LONG]
    path = tmp_path / "peers.json"
    command = [sys.executable, "-m", "bench.peers", "--smoke", "--json", str(path)]
    done = subprocess.run(
        [*command, "--data", str(tmp_path), *[part for name in wanted for part in ("--only", name)]],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", HOME: str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "bench: measuring only Ottla, because Apache Kafka is not available: " in done.stderr
    (found,) = read_parts(str(path))
    assert {entry.scenario for entry in found.entries} == set(found.conditions["scenarios"]) == set(wanted)
    assert all(entry.ours and entry.ours[0] >= 0 and not entry.theirs for entry in found.entries)
    assert found.conditions["kafka"].startswith("not available: ")
    assert not found.conditions["failed"]


def test_an_unknown_scenario_is_an_error_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers", "--only", "nothing"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "transactions" in done.stderr
