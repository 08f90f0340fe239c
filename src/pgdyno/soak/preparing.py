"""Needs of a soak: a spec that can go on after an interruption, the server that it began on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pgdyno.conduct.repeating import recorded_fields
from pgdyno.errors import UsageError
from pgdyno.record import Continuation, RunFile, SliceKind, discard_beginning
from pgdyno.record.opening import is_run_file
from pgdyno.server.connecting.connect import parse_conninfo
from pgdyno.server.local.layout import has_kept_data, keep_from_now_on
from pgdyno.shapes import Fields
from pgdyno.spec import Spec
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
    for what, used in {"disk": spec.disk != DiskSpec(), "standby": spec.standby.receivers}.items():
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


def continuation_of(path: Path, spec: Spec, *, scale: int | None = None) -> Continuation | None:
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
    """Return the spec for going on: what makes tables has been done."""
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


def _other_scale(run: RunFile, scale: int | None) -> Iterator[str]:
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
