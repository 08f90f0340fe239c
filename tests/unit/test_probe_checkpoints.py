"""Checkpoints told from the checkpointer's waits and counters, on made-up timelines."""

from __future__ import annotations

from typing import Any

from pgdyno.probe._checkpoints import Checkpoint, CheckpointWatch

S = 1_000_000_000
IDLE = ("Activity", "CheckpointerMain")
PACE = ("Timeout", "CheckpointWriteDelay")
SYNC = ("IO", "DataFileSync")
ZERO = {
    "num_timed": 0,
    "num_requested": 0,
    "num_done": None,
    "write_time_ms": 0.0,
    "sync_time_ms": 0.0,
    "buffers_written": 0,
    "redo_lsn_bytes": 1000,
}


def watch(
    ticks: dict[float, tuple[str, str]], samples: dict[float, dict[str, Any]]
) -> list[Checkpoint]:
    """What a watch says when fed ticks and counters in order of time (seconds)."""
    watcher, row, told = CheckpointWatch(), dict(ZERO), []
    for at in sorted({*ticks, *samples}):
        if at in ticks:
            watcher.see_wait(round(at * S), *ticks[at])
        if at in samples:
            row = row | samples[at]
            told += watcher.see_counters(round(at * S), row)
    return told


TICKS = {0.0: IDLE, 2.0: IDLE, 2.1: ("", ""), 2.2: PACE, 3.0: PACE, 3.1: SYNC, 3.3: SYNC, 3.4: IDLE}
DONE = {
    "redo_lsn_bytes": 2000,
    "write_time_ms": 900.0,
    "sync_time_ms": 300.0,
    "buffers_written": 50,
}


def test_a_paced_checkpoint_has_its_times_from_the_waits() -> None:
    [seen] = watch(TICKS, {0.5: {}, 1.5: {}, 2.5: {"num_timed": 1}, 3.5: DONE, 4.5: {}, 5.5: {}})
    assert seen == Checkpoint(
        began_ns=round(2.1 * S),
        ended_ns=round(3.4 * S),
        reason="timed",
        write_ms=900.0,
        sync_ms=300.0,
        buffers=50,
        sync_ns=(round(3.05 * S), round(3.35 * S)),  # seen for 0.2 s, counted 0.3 s
        seen="waits",
    )
    assert seen.label == "checkpoint (timed)"


def test_times_reported_late_are_waited_for() -> None:
    done_first = {"redo_lsn_bytes": 2000, "num_requested": 1}
    later = {"write_time_ms": 900.0, "sync_time_ms": 300.0}
    [seen] = watch(TICKS, {0.5: {}, 2.5: {}, 3.5: done_first, 4.5: later, 5.5: {}})
    assert (seen.write_ms, seen.reason, seen.seen) == (900.0, "requested", "waits")


def test_without_waits_the_counters_must_do() -> None:
    [seen] = watch({}, {0.5: {}, 2.5: {"num_requested": 1}, 3.5: DONE, 4.5: {}})
    assert seen.seen == "counters"
    assert seen.duration_ms == 1200.0
    assert seen.reason == "requested"


def test_back_to_back_checkpoints_are_two() -> None:
    ticks = TICKS | {3.4: PACE, 4.0: PACE, 4.1: SYNC, 4.2: IDLE}
    again = {"redo_lsn_bytes": 3000, "write_time_ms": 1500.0, "sync_time_ms": 400.0}
    first = DONE | {"num_requested": 2}
    seen = watch(ticks, {0.5: {}, 2.5: {"num_requested": 1}, 3.5: first, 4.5: again})
    assert [round(one.began_ns / S, 1) for one in seen] == [2.1, 3.4]
    assert [one.reason for one in seen] == ["requested", "requested"]
    assert [one.write_ms for one in seen] == [900.0, 600.0]


def test_a_skipped_checkpoint_is_none() -> None:
    assert watch({0.0: IDLE}, {0.5: {}, 1.5: {"num_timed": 1}, 2.5: {}, 9.5: {}}) == []


def test_counters_that_begin_anew_are_no_checkpoint() -> None:
    before = {"num_timed": 7, "write_time_ms": 100.0}
    after = {"num_timed": 0, "write_time_ms": 0.0, "redo_lsn_bytes": 9000}
    assert watch({}, {0.5: before, 1.5: after, 2.5: {}, 3.5: {}, 4.5: {}}) == []


def test_one_under_way_at_the_end_is_told_as_unfinished() -> None:
    watcher = CheckpointWatch()
    watcher.see_counters(0, ZERO)
    for at in (1, 2, 3):
        watcher.see_wait(at * S, *PACE)
    [seen] = watcher.unfinished(4 * S)
    assert not seen.finished
    assert seen.began_ns == S
    watcher.forget()
    assert watcher.unfinished(5 * S) == []
