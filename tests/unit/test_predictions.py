"""Predictions of what is gained by moving an update, and by not waiting for flushes and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_runs import CPU, ROW, WAL_SYNC, Load, diagnosed
from msgspec.structs import replace

from pgdyno.facts.model import ClosedLoop
from pgdyno.spec import Change, spec_from_fields
from pgdyno.workload import load_workloads
from pgdyno.workload.update_last import late_update

HOT = """begin;
update counters set n = n + 1 where id = 1;
select pg_sleep(0.008);
end;
"""
SLEEP = ("Timeout", "PgSleep")
QUEUE = Load(
    clients=16,
    tps=112,
    service_ms=142.0,
    busy=0.02,
    generator_busy=0.01,
    sessions={SLEEP: 0.9, ROW: 14.8, CPU: 0.1},
    queues=[{"relation": "public.counters", "blocker": "select pg_sleep(0.008)"}],
    script_text=HOT,
    script_ms=[
        ("begin", 0.1),
        ("update counters set n = n + 1 where id = 1", 133.0),
        ("select pg_sleep(0.008)", 8.1),
        ("end", 0.4),
    ],
)


def test_the_update_comes_last() -> None:
    moved = late_update(HOT, "public.counters")
    assert moved is not None
    assert moved.text.split(";\n") == [
        "begin",
        "select pg_sleep(0.008)",
        "update counters set n = n + 1 where id = 1",
        "end",
        "",
    ]
    assert (moved.place, moved.end) == (1, 3)


@pytest.mark.parametrize(
    "script",
    [
        "update counters set n = 1 where id = 1;\nselect 1;",  # no transaction block
        "begin;\nselect 1;\nupdate counters set n = 1;\nend;",  # it is the last one already
        "begin;\nupdate counters set n = 1;\nselect n from counters;\nend;",
        "begin;\nupdate counters set n = 1 returning n;\nselect 1;\nend;",
        "begin;\nupdate counters set n = 1;\n\\set x 1\nselect :x;\nend;",
        "begin;\nupdate other.counters set n = 1;\nselect 1;\nend;",
        "begin;\ninsert into counters values (1);\nselect 1;\nend;",
        "begin;\nupdate counters_old set n = 1;\nselect 1;\nend;",
        "begin;\nupdate counters set n = 1;\nselect 1;\nend;\nbegin;\nselect 2;\nend;",
    ],
)
def test_a_script_stays_as_it_is_where_its_order_may_matter(script: str) -> None:
    assert late_update(script, "public.counters") is None


def test_a_spec_loads_scripts_with_the_update_last(tmp_path: Path) -> None:
    path = tmp_path / "hot.sql"
    path.write_text(HOT)
    workload = {"script": [{"file": str(path)}], "update_last": "counters"}
    (loaded,) = load_workloads(spec_from_fields({"workload": workload})).values()
    assert loaded.scripts[0].text.endswith("where id = 1;\nend;\n")


def test_the_effect_is_predicted_from_the_times_of_the_statements(tmp_path: Path) -> None:
    finding = diagnosed(tmp_path, QUEUE)["hot-row"]
    late = next(each for each in finding.proposals if each.remedy_id == "update-last")
    assert late.change == Change(spec={"workload.update_last": "public.counters"})
    assert late.specific
    # Held for 0.8 ms of 8.9: 16 clients with 9 ms each, some of it in the queue for the row.
    assert 8 < late.predicted_ratio < 16


def test_the_cpu_time_of_those_who_are_woken_goes_with_the_queue(tmp_path: Path) -> None:
    """Each COMMIT wakes all who wait for its transaction, 1.8 ms of CPU time, which nobody takes
    when nobody waits."""
    finding = diagnosed(tmp_path, replace(QUEUE, busy=0.1))["hot-row"]
    late = next(each for each in finding.proposals if each.remedy_id == "update-last")
    assert late.prediction.high > 16


def test_a_commit_is_predicted_by_its_flush_where_it_waits_for_more(tmp_path: Path) -> None:
    """COMMIT takes 4 ms, of which it waits 1 ms for its flush: with the queue for the row the other
    3 ms may go or stay."""
    slow = replace(QUEUE, sessions={SLEEP: 0.9, ROW: 14.4, WAL_SYNC: 0.1, CPU: 0.1})
    times = [(text, 4.0 if text == "end" else ms) for text, ms in QUEUE.script_ms]
    finding = diagnosed(tmp_path, replace(slow, script_ms=times))["hot-row"]
    late = next(each for each in finding.proposals if each.remedy_id == "update-last")
    assert "held for 8.3 % to 34 % of" in late.why


def test_nothing_is_predicted_of_a_script_that_is_not_known(tmp_path: Path) -> None:
    unknown = diagnosed(tmp_path, replace(QUEUE, script_text=""))["hot-row"]
    assert unknown.status == "found"
    assert "update-last" not in {each.remedy_id for each in unknown.proposals}


def test_a_queue_for_a_core_that_follows_a_flush_goes_with_it(tmp_path: Path) -> None:
    """COMMIT takes 3 ms beyond its flush, the other statements 0.2 ms: the session that the flush
    has woken waits for a core."""
    slow = Load(
        clients=8,
        tps=500,
        service_ms=16.0,
        busy=1.0,
        server=0.1,
        generator_busy=0.05,
        sessions={WAL_SYNC: 6.0, CPU: 0.1},
        script_ms=[("begin", 0.2), ("update t set n = 1", 0.2), ("end", 15.4)],
    )
    finding = diagnosed(tmp_path, slow)["commit-flush"]
    without = next(p for p in finding.proposals if p.remedy_id == "synchronous-commit-off")
    other = replace(slow, script_ms=[("select f()", 16.0)])
    (same,) = [
        each
        for each in diagnosed(tmp_path, other)["commit-flush"].proposals
        if each.remedy_id == "synchronous-commit-off"
    ]
    assert without.predicted_ratio > 1.5 * same.predicted_ratio


def test_reads_that_are_not_made_save_their_system_calls() -> None:
    """Half of the CPU time is the kernel's, of which 0.6 goes with the reads: 0.7 are left, on
    cores that are the next limit."""
    reading = ClosedLoop(
        cores=2, sessions=8, throughput_tps=250, cpu_s=0.001, cpu_system_share=0.5, data_s=0.031
    )
    keeps = replace(reading, cpu_system_share=0.0).predict(data=0.0)
    assert reading.predict(data=0.0) == pytest.approx(keeps / 0.7)
    both = replace(reading, data_s=0.0155, flush_s=0.0155)
    assert 2 * both.flush_cpu == both.data_cpu == pytest.approx(0.15)
    assert 2 * both.flush_cpu + both.data_cpu == pytest.approx(reading.data_cpu)
