"""The procedure of ``pgdyno soak``: go on where the run file ends, watch the disks and the
throughput, and make one result of all parts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.conduct import Session, Target, carry_on
from pgdyno.diagnose.words import duration, size
from pgdyno.dimension import fields_with
from pgdyno.errors import SetupError, ThresholdError
from pgdyno.investigate.observe import diagnosed
from pgdyno.record import GAP, RunFile, SliceKind
from pgdyno.record.void import VOID_SHARE_MAX, void_reason, void_share
from pgdyno.results import store
from pgdyno.results.soak import Gap, NamedChange, SoakResult, VoidSlice
from pgdyno.soak._changes import ChangeWatch
from pgdyno.soak._space import Disk, disks_of, fullest
from pgdyno.soak._validity import validity
from pgdyno.soak.preparing import measured_ms
from pgdyno.spec import Change
from pgdyno.stats.words import rounded

LOOK_EVERY_S = 1.0
SEARCH_EVERY_S = 30.0
PROGRESS_EVERY_S = 60.0
SLICES_MIN = 20
SLICE_MS_MIN, SLICE_MS_MAX = 10_000, 3_600_000
"""A restart of the server voids one slice: a small part of the soak, and not more than an hour."""
CHANGE = "level"
"""Kind of the event of a change that was named."""


def run_soak(session: Session, *, keep_free_bytes: int, kept_server: Path | None) -> SoakResult:
    """Carry out what is left of the soak, diagnose all of it, and record the result."""
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
    full: Disk | None = None
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


def _result(session: Session, *, ended_by: Disk | None, kept_server: Path | None) -> SoakResult:
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
