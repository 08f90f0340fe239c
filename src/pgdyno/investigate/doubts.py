"""Why a measurement cannot be trusted for what happened beside it: a sentence for each reason."""

from __future__ import annotations

from pgdyno.diagnose.foreign import foreign_load
from pgdyno.diagnose.others import other_programs
from pgdyno.record import RunFile

_NOT_MEASURED = frozenset({"ramp"})
"""Kinds of slices that no figure rests on."""


def doubts(run: RunFile) -> list[str]:
    """The reasons, over all that was measured; empty when there are none."""
    measured = [part.id for part in run.slices() if part.kind not in _NOT_MEASURED]
    if not measured:
        return []
    return [*_of_programs(run, measured), *_of_load(run, measured)]


def _of_programs(run: RunFile, slice_ids: list[int]) -> list[str]:
    others = other_programs(run, slice_ids)
    return [others.sentence] if others is not None and others.spoils else []


def _of_load(run: RunFile, slice_ids: list[int]) -> list[str]:
    load = foreign_load(run, slice_ids)
    return [load.sentence] if load is not None and load.spoils else []
