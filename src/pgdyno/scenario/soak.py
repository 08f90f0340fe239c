"""The procedure of ``pgdyno soak``: go on where the run file ends, watch the disks and the
throughput, make one result of all parts, and check that it measured the load as intended."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from pgdyno.conduct import Session, Target, carry_on
from pgdyno.conduct.repeating import recorded_fields
from pgdyno.dimension import fields_with
from pgdyno.errors import SetupError, ThresholdError, UsageError
from pgdyno.investigate.run import diagnosed
from pgdyno.json_types import Fields
from pgdyno.numbers import counted, duration, percent, rounded, size
from pgdyno.record import GAP, Continuation, RunFile, SliceKind, discard_beginning
from pgdyno.record.opening import is_run_file
from pgdyno.record.void import VOID_SHARE_MAX, connected, void_reason, void_share
from pgdyno.results import store
from pgdyno.results.soak import Gap, NamedChange, SoakResult, ValidityCheck, VoidSlice
from pgdyno.scenario._soak_changes import ChangeWatch
from pgdyno.server.connecting.connect import parse_conninfo
from pgdyno.server.local.layout import has_kept_data, keep_from_now_on
from pgdyno.spec import Change, Spec
from pgdyno.spec.connections import kept_connections
from pgdyno.spec.model import DiskSpec
from pgdyno.workload import with_texts

COMMAND = "soak"
_MAY_DIFFER = (
    *("load.hold", "load.max_failures", "load.max_other_programs", "metrics", "server.wait"),
    *("workload.scale", "workload.initialize"),
)
"""Keys that are not the load's, or that the run itself decides."""


def check_soak(spec: Spec) -> None:
    """Raise UsageError for a spec that a soak cannot carry out."""
    if spec.load.steps:
        raise _not_in_a_soak("load.steps")
    if any(event.settings is not None for event in spec.events):
        raise _not_in_a_soak("an event with settings")
    if any(group.open_loop is not None and group.open_loop.shape for group in spec.clients):
        raise _not_in_a_soak("a shape of the arrivals")
    for what, used in {
        "disk": spec.disk != DiskSpec.default(),
        "standby": spec.standby.receivers,
    }.items():
        if used:
            raise UsageError(
                f"{what} cannot be used with pgdyno soak: it ends with pgdyno, and the data stay",
                code="contradiction",
                hint="name a server of yours with -h or -d that has it",
            )


def _not_in_a_soak(what: str) -> UsageError:
    return UsageError(
        f"{what} cannot be used with pgdyno soak: it would begin again after an interruption",
        code="contradiction",
        hint="remove it from the spec; pgdyno run carries it out",
    )


def continuation_of(path: Path, spec: Spec, *, scale: float | None = None) -> Continuation | None:
    """Return how to go on with the soak in ``path``; None if there is no such file. ``scale`` is
    that of the command line.

    Raises UsageError if it is of another run or another spec, or is being recorded.
    """
    if not path.exists() or discard_beginning(path) or not is_run_file(path):
        return None
    continuation = Continuation.of(path, COMMAND)
    with RunFile(path) as run:
        differences = [
            *_differences(run.run.spec, recorded_fields(with_texts(spec))),
            *_other_scale(run, scale),
            *_other_database(run, spec),
        ]
    if differences:
        raise UsageError(
            f"the soak in {path} has another spec: {'; '.join(differences[:3])}",
            code="soak-differs",
            hint="give the same options to go on with it, or name another run file with -o",
        )
    return continuation


def kept_server(path: Path, spec: Spec, *, goes_on: bool) -> Path | None:
    """Return the directory, beside the run file ``path``, of the server that pgdyno starts for the
    soak; None for a server of the user's.

    Raises UsageError if it has data although the soak begins, or none although it goes on.
    """
    if spec.server.kind == "existing":
        return None
    directory = path.with_suffix(".server")
    if goes_on:
        keep_from_now_on(directory)
    if has_kept_data(directory) != goes_on:
        lacks = f"the data of the soak, which were in {directory}, are not there"
        has = f"{directory} has the data of another soak"
        raise UsageError(
            lacks if goes_on else has,
            code="soak-data",
            hint="name another run file with -o to begin"
            + ("" if goes_on else ", or remove the directory"),
        )
    return directory


def going_on(spec: Spec) -> Spec:
    """Return the spec for resuming, in which the tables exist already."""
    done: dict[str, object] = {
        "initialize": False,
        "setup": None,
        "setup_text": None,
        "setup_sha256": None,
        "indexes": {},
    }
    workload = spec.workload.model_copy(update=done)
    return spec.model_copy(update={"workload": workload})


def is_complete(path: Path, spec: Spec) -> bool:
    """Return whether the run file ``path`` has all of the time under load, and a result of it."""
    with RunFile(path) as run:
        done_ms = measured_ms(run)
        of_result_s = run.run.result.get("measured_s")
        return done_ms >= spec.load.hold_ms and of_result_s == done_ms / 1000


def measured_ms(run: RunFile) -> int:
    """Return the time under load that was measured, of ended slices."""
    slices = [each for each in run.slices(SliceKind.RUN) if each.ended_ms is not None]
    return sum((each.ended_ms or 0) - each.started_ms for each in slices)


def _other_scale(run: RunFile, scale: float | None) -> Iterator[str]:
    """Yield the difference if a ``scale`` is given that the tables do not have, unless the soak
    began with it: then there were tables of another scale, and it was ignored."""
    recorded, asked = run.run.spec["workload"].get("scale"), run.run.asked
    began_with = ("--scale", str(scale)) in pairwise(asked)
    if scale not in (None, recorded) and not began_with:
        yield f"workload.scale {recorded} → {scale}"


def _other_database(run: RunFile, spec: Spec) -> Iterator[str]:
    """Yield the difference if another database is named than the soak began in, or none."""
    if spec.server.kind != "existing":
        return
    named = parse_conninfo(spec.server.conninfo).get("dbname")
    began_in = (run.run.server.get("database"), run.run.server.get("database_named"))
    if named is not None and named not in began_in:
        yield f"database {began_in[1] or began_in[0]} → {named}"


def _differences(before: Fields, after: Fields, within: str = "") -> Iterator[str]:
    """Yield the keys that differ, with both values."""
    for key in dict.fromkeys((*before, *after)):
        name = f"{within}{key}"
        old, new = before.get(key), after.get(key)
        if name in _MAY_DIFFER or old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{name}.")
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            yield from _differences(_numbered(old), _numbered(new), f"{name}.")
        elif old is not None or new is not None:
            yield f"{name} {old} → {new}"


def _numbered(values: list[Any]) -> dict[str, object]:
    return {str(number): each for number, each in enumerate(values)}


class SoakDisk(Struct, frozen=True):
    """A file system, and its contents in words."""

    path: Path
    holds: str

    @property
    def free_bytes(self) -> int | None:
        """Bytes free for accounts other than root; None if it cannot be read."""
        with suppress(OSError):
            status = os.statvfs(self.path)
            return status.f_bavail * status.f_frsize
        return None


def disks_of(run_file: Path, data_dir: Path | None) -> list[SoakDisk]:
    """Return the disks of the run file and of the server's data and WAL, each once."""
    found: dict[int, SoakDisk] = {}
    for path, holds in _places(run_file, data_dir):
        with suppress(OSError):
            device = path.stat().st_dev
            held = f"{found[device].holds} and {holds}" if device in found else holds
            found[device] = SoakDisk(path, held)
    return list(found.values())


def _places(run_file: Path, data_dir: Path | None) -> Iterator[tuple[Path, str]]:
    yield run_file.absolute().parent, "the run file"
    if data_dir is not None:
        yield data_dir, "the data"
        yield data_dir / "pg_wal", "the WAL"


def fullest(disks: list[SoakDisk], keep_free_bytes: int) -> SoakDisk | None:
    """Return a disk with less free space than is to remain; None if there is none."""
    for disk in disks:
        free_bytes = disk.free_bytes
        if free_bytes is not None and free_bytes < keep_free_bytes:
            return disk
    return None


CPU_SHARE_MAX = 0.9
"""Share of its core from which a thread of the load engine is no longer sure to be on time."""
UNCONNECTED_SHARE_MAX = 0.01
"""Share of the clients' time without a connection: a reconnect now and then changes nothing."""


def validity(run: RunFile, slice_ids: list[int]) -> tuple[ValidityCheck, ...]:
    """Return the checks over the measured slices."""
    return (
        _generator(run, slice_ids),
        _errors(run, slice_ids),
        *_connections(run, slice_ids),
        _ledger(run),
    )


def _generator(run: RunFile, slice_ids: list[int]) -> ValidityCheck:
    rows = run.series("metric_generator", slice_ids)
    cpu_us = rows["cpu_user_us"] + rows["cpu_system_us"]
    # Of a short interval, the clock's ticks are too coarse.
    whole = rows["duration_ms"] >= 900
    shares = cpu_us[whole] / (1000 * rows["duration_ms"][whole])
    if not len(shares):
        return ValidityCheck(
            name="generator", passed=None, sentence="the CPU of the load engine was not measured"
        )
    highest, mean = float(shares.max()), float(cpu_us.sum() / (1000 * rows["duration_ms"].sum()))
    passed = highest < CPU_SHARE_MAX
    return ValidityCheck(
        name="generator",
        passed=passed,
        sentence=f"a thread of the load engine used {percent(mean)} of a core on average and"
        f" {percent(highest)} at most"
        + ("" if passed else f"; from {percent(CPU_SHARE_MAX)} on it may be the limit"),
    )


def _errors(run: RunFile, slice_ids: list[int]) -> ValidityCheck:
    errors = [error for error in run.errors(slice_ids) if not error.retried]
    injected = sum(error.count for error in errors if error.expected)
    others = [error for error in errors if not error.expected]
    count = sum(error.count for error in others)
    said = f"{counted(injected, 'expected error', 'expected errors')}"
    if others:
        said += f", and {counted(count, 'other', 'others')}, most often {others[0].words}"
    else:
        said += " and no others"
    return ValidityCheck(name="errors", passed=not others, sentence=said)


def _connections(run: RunFile, slice_ids: list[int]) -> Iterator[ValidityCheck]:
    kept = kept_connections(run.run.spec)
    shares: dict[str, list[tuple[float, float]]] = {}
    expected: dict[str, int] = {}
    for each in (run.slice(number) for number in slice_ids):
        lasted_ms = float((each.ended_ms or each.started_ms) - each.started_ms)
        for group in connected(run, each, kept):
            shares.setdefault(group.group, []).append((group.unconnected_share, lasted_ms))
            expected[group.group] = group.expected
    for name, parts in shares.items():
        whole_ms = sum(lasted_ms for _, lasted_ms in parts)
        share = sum(part * ms for part, ms in parts) / whole_ms if whole_ms else 0.0
        yield ValidityCheck(
            name="connections",
            passed=share <= UNCONNECTED_SHARE_MAX,
            sentence=f"{name}: of {counted(expected[name], 'connection', 'connections')}"
            f" {percent(1 - share)} of the time were open",
        )


def _ledger(run: RunFile) -> ValidityCheck:
    ledger = run.ledger()
    said = "the ledger adds up" if ledger.balanced else "the ledger does not add up"
    return ValidityCheck(name="ledger", passed=ledger.balanced, sentence=said)


LOOK_EVERY_S = 1.0
SEARCH_EVERY_S = 30.0
PROGRESS_EVERY_S = 60.0
SLICES_MIN = 20
SLICE_MS_MIN, SLICE_MS_MAX = 10_000, 3_600_000
"""A restart of the server voids one slice: a small part of the soak, and not more than an hour."""
CHANGE = "level"
"""Kind of the event of a change that was named."""


def run_soak(session: Session, *, keep_free_bytes: int, kept_server: Path | None) -> SoakResult:
    """Carry out the rest of the soak, diagnose the whole of it, and record the result."""
    run = session.reader()
    _judge_cut_slices(session, run)
    done_ms = measured_ms(run)
    if done_ms:
        gap_s = sum(each.duration_ms or 0 for each in run.events(GAP)[-1:]) / 1000
        session.watcher.step(
            f"going on after {duration(done_ms / 1000)} under load; not recorded for"
            f" {duration(gap_s)}"
        )
    watch = _Watch(session, keep_free_bytes)
    session.recorder.listen(watch.changes)
    if session.spec.load.hold_ms > done_ms:
        carry_on(
            session,
            done_ms,
            slice_ms=max(SLICE_MS_MIN, min(SLICE_MS_MAX, session.spec.load.hold_ms // SLICES_MIN)),
            every_s=LOOK_EVERY_S,
            goes_on=watch.goes_on,
        )
    session.recorder.leave(watch.changes)
    result = _result(session, ended_by=watch.full, kept_server=kept_server)
    store(session.recorder, result)
    return result


def check_space(path: Path, target: Target, *, keep_free_bytes: int) -> None:
    """Raise SetupError if there is too little space to begin or to go on in the run file
    ``path``."""
    disk = fullest(disks_of(path, target.data_dir), keep_free_bytes)
    if disk is not None:
        raise SetupError(
            f"less than {size(keep_free_bytes)} are free on the disk of {disk.holds}"
            f" ({disk.path}): {size(disk.free_bytes or 0)}",
            code="soak-space",
            hint="free some space, or leave less with --keep-free",
        )


def check_ended(result: SoakResult, keep_free_bytes: int) -> None:
    """Raise ThresholdError if the soak ended before its time, to keep disks from filling."""
    if result.ended == "disk":
        raise ThresholdError(
            f"the soak ended after {duration(result.measured_s)} of {duration(result.planned_s)}:"
            f" less than {size(keep_free_bytes)} are free",
            code="soak-disk",
            hint=f"free some space; the same command with -o {result.run_file} goes on",
        )


@dataclass
class _Watch:
    """The looks of each second: disks, progress, changes."""

    session: Session
    keep_free_bytes: int
    changes: ChangeWatch = field(default_factory=ChangeWatch)
    full: SoakDisk | None = None
    _search_s: float = 0.0
    _progress_s: float = 0.0

    def __post_init__(self) -> None:
        self._disks = disks_of(self.session.recorder.path, self.session.target.data_dir)
        self._search_s = time.monotonic() + SEARCH_EVERY_S

    def goes_on(self, measured_s: float) -> bool:
        """Show progress and changes; return False if a disk is too full."""
        now_s = time.monotonic()
        hold_s = self.session.spec.load.hold_ms / 1000
        if now_s >= self._progress_s:
            self._progress_s = now_s + PROGRESS_EVERY_S
            left = f"soak, {duration(hold_s - measured_s)} left; seconds under load"
            self.session.watcher.progress(left, int(measured_s), int(hold_s))
        if now_s >= self._search_s:
            self._search_s = now_s + SEARCH_EVERY_S
            self._name_changes()
        self.full = fullest(self._disks, self.keep_free_bytes)
        if self.full is not None:
            said = (
                f"less than {size(self.keep_free_bytes)} are free on the disk of {self.full.holds}"
            )
            self.session.recorder.add_event("warning", "disk nearly full", {"message": said})
            self.session.watcher.note(f"the soak ends now: {said}")
        return self.full is None

    def _name_changes(self) -> None:
        for change in self.changes.found():
            recorder = self.session.recorder
            detail = {"sentence": change.sentence}
            recorder.add_event(CHANGE, change.label, detail, ns=change.at_ns)
            at_s = recorder.at_ms(change.at_ns) / 1000
            self.session.watcher.step(f"at {duration(at_s)}: {change.sentence}")


def _judge_cut_slices(session: Session, run: RunFile) -> None:
    """Decide whether the slice that was open when recording ended is void."""
    for each in run.slices(SliceKind.RUN):
        if each.void is None:
            reason = void_reason(run, each, fields_with(run.run.spec, Change()))
            if reason is not None:
                session.recorder.void_slice(each.id, reason.sentence)


def _result(session: Session, *, ended_by: SoakDisk | None, kept_server: Path | None) -> SoakResult:
    slices = session.reader().slices(SliceKind.RUN)
    void = [each for each in slices if each.void is not None]
    slice_ids = session.reader().valid_slices(SliceKind.RUN)
    of_run = diagnosed(session, slice_ids)
    run = session.reader()
    return SoakResult(
        **dict(of_run),
        planned_s=session.spec.load.hold_ms / 1000,
        measured_s=measured_ms(run) / 1000,
        ended="planned" if ended_by is None else "disk",
        data_kept=str(kept_server) if kept_server else None,
        gaps=tuple(
            Gap(at_s=each.at_ms / 1000, lasted_s=(each.duration_ms or 0) / 1000)
            for each in run.events(GAP)
        ),
        void_slices=tuple(
            VoidSlice(
                at_s=each.started_ms / 1000,
                lasted_s=((each.ended_ms or each.started_ms) - each.started_ms) / 1000,
                reason=each.void or "",
            )
            for each in void
        ),
        void_share=rounded(void_share(slices)),
        void_share_max=VOID_SHARE_MAX,
        changes_named=tuple(
            NamedChange(
                at_s=each.at_ms / 1000, sentence=str(each.detail.get("sentence", each.label))
            )
            for each in run.events(CHANGE)
        ),
        validity=validity(run, slice_ids),
    )
