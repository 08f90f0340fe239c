"""Changes of throughput that a soak names, and the checks of its validity, on made-up figures."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from record_samples import add_second, error_row, group_row, script_row, thread_row

from pgdyno.record import Recorder, RunFile
from pgdyno.scenario._soak_changes import ChangeWatch
from pgdyno.scenario.soak import SoakDisk, fullest, validity
from pgdyno.trial.trust import distrust


def feed(watch: ChangeWatch, at_s: int, tps: float, clients: int = 4) -> None:
    interval: Any = {
        "started_ns": at_s * 1_000_000_000,
        "ended_ns": (at_s + 1) * 1_000_000_000,
        "groups": [{"clients": clients}],
        "scripts": [{"done": tps}],
    }
    watch.interval(interval)


def named(levels: list[tuple[int, float]], *, noise: float = 0.05, seed: int = 1) -> list[Any]:
    """The changes named in a load with these levels for some seconds each."""
    rng, watch, found, at_s = random.Random(seed), ChangeWatch(), [], 0
    for seconds, tps in levels:
        for _ in range(seconds):
            feed(watch, at_s, tps * rng.lognormvariate(0, noise))
            at_s += 1
            if at_s % 30 == 0:
                found += watch.found()
    return found


def test_a_fall_is_named_once_with_its_time() -> None:
    (change,) = named([(120, 2000), (240, 900)])
    assert abs(change.at_ns / 1e9 - 120) <= 2
    assert change.before_tps == pytest.approx(2000, rel=0.1)
    assert change.after_tps == pytest.approx(900, rel=0.1)
    assert change.sentence.startswith("throughput fell from ")


def test_a_fall_and_the_rise_after_it() -> None:
    fall, rise = named([(120, 2000), (200, 900), (200, 2000)])
    assert fall.sentence.startswith("throughput fell")
    assert rise.sentence.startswith("throughput rose")


def test_a_steady_load_has_none_for_hours() -> None:
    assert [named([(3 * 3600, 2000)], noise=0.15, seed=seed) for seed in range(2)] == [[], []]


def test_another_number_of_clients_is_no_change() -> None:
    watch = ChangeWatch()
    for at_s in range(100):
        feed(watch, at_s, 1000 if at_s < 50 else 2000, clients=4 if at_s < 50 else 8)
    assert watch.found() == []


def test_what_was_beside_a_change_is_said() -> None:
    watch = ChangeWatch()
    now_s = int(time.monotonic())
    watch.rows("metric_vacuum", [{"automatic": 1, "relation": "public.t"}])
    for at_s in range(now_s - 60, now_s + 60):
        feed(watch, at_s, 2000 if at_s < now_s else 500)
    (change,) = watch.found()
    assert change.beside == ("autovacuum of public.t",)


def test_the_fullest_disk(tmp_path: Any) -> None:
    disk = SoakDisk(tmp_path, "the run file")
    assert fullest([disk], 0) is None
    assert fullest([disk], 1 << 60) is disk
    assert fullest([SoakDisk(tmp_path / "gone", "the data")], 1 << 60) is None


def judged(path: Path, **more: Any) -> dict[str, bool | None]:
    """The checks of a run of 20 s with 2 clients, a second each; ``more`` changes its rows."""
    recorder = Recorder.create(
        path, name="soak", command="soak", spec={"clients": [{"name": "web", "count": 2}]}
    )
    slice_id = recorder.open_slice("run", ns=recorder.started_ns)
    for second in range(20):
        script = script_row(group="web", done=10, intended=10, sent=10, **more.get("script", {}))
        group = group_row(group="web", clients=2, connections=more.get("connections", 2))
        thread = thread_row(cpu_user_us=more.get("cpu_us", 100_000), cpu_system_us=0)
        errors = [error_row(group="web", **each) for each in more.get("errors", [])]
        add_second(
            recorder, second, [script], groups=[group], errors=errors, threads=[thread],
        )  # fmt: skip
    recorder.close_slice(slice_id, ns=recorder.started_ns + 20_000_000_000)
    recorder.finish("done")
    with RunFile(path) as run:
        return {each.name: each.passed for each in validity(run, [slice_id])}


@pytest.mark.parametrize(
    ("void", "trusted"),
    [({3}, True), ({3, 4}, True), ({3, 4, 5}, False), (set(range(20)), False)],
    ids=["one", "a-tenth", "more", "all"],
)
def test_a_soak_is_trusted_if_little_of_it_is_void(
    tmp_path: Path, void: set[int], trusted: bool
) -> None:
    recorder = Recorder.create(tmp_path / "run.db", name="soak", command="soak")
    for second in range(20):
        began_ns = recorder.started_ns + second * 1_000_000_000
        slice_id = recorder.open_slice("run", ns=began_ns)
        add_second(recorder, second, [script_row(done=1, intended=1, sent=1)])
        recorder.close_slice(slice_id, ns=began_ns + 1_000_000_000)
        if second in void:
            recorder.void_slice(slice_id, "the server was restarted")
    recorder.finish("done")
    with RunFile(tmp_path / "run.db") as run:
        said = [each for each in distrust(run, []) if "void" in each]
    assert (said == []) is trusted
    if not trusted:
        assert f"{5 * len(void)} % of the time is in void slices, more than 10 %" in said[0]


SOUND = {"generator": True, "errors": True, "connections": True, "ledger": True}


@pytest.mark.parametrize(
    ("more", "failed"),
    [
        ({}, set()),
        ({"errors": [{"expected": 1}]}, set()),
        ({"errors": [{"expected": 1}, {"expected": 0, "retried": 0}]}, {"errors"}),
        ({"cpu_us": 950_000}, {"generator"}),
        ({"connections": 1}, {"connections"}),
        ({"script": {"failed": 1}}, {"ledger"}),
    ],
    ids=["sound", "injected", "other-errors", "generator", "connections", "ledger"],
)
def test_each_check_of_validity_sees_its_fault(
    tmp_path: Path, more: dict[str, Any], failed: set[str]
) -> None:
    assert judged(tmp_path / "run.db", **more) == SOUND | dict.fromkeys(failed, False)
