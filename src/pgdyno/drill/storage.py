"""Drills in run files: written cut by cut, read back as the results that they were."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import Check, Cut, DrillOptions, DrillResult, LedgerCount, Proof, Verified
from pgdyno.record import CutRow, DrillRow, Recorder, RunFile, RunInfo
from pgdyno.record.opening import damaged


def store_drill(recorder: Recorder, drill: DrillResult, options: DrillOptions) -> int:
    """Begin to keep a drill, whose cuts follow one by one; its number in the run file."""
    return recorder.add_drill(
        fault=drill.fault,
        title=drill.title,
        seed=drill.seed,
        sham=int(drill.sham),
        options=asdict(options),
        settings=drill.settings,
        bound_ms=drill.bound_ms,
        bound=drill.bound,
    )


def store_cut(recorder: Recorder, drill_id: int, cut: Cut, *, ns: int) -> None:
    """Keep a cut whose fault struck at monotonic ``ns``."""
    recorder.add_cut({"drill_id": drill_id, **_row(cut)}, ns=ns)


def _row(cut: Cut) -> dict[str, Any]:
    """Of table cut, but for the drill and the time."""
    verified = cut.verified
    return {
        "number": cut.number,
        "load_ms": cut.at_ms,
        "variant": cut.variant,
        "seed": cut.seed,
        "outcome": cut.outcome,
        "seen_by": verified.seen_by if verified else "",
        "server_said": verified.server_said if verified else "",
        "recovery_s": verified.recovery_s if verified else None,
        # As exact as it was counted: results round, and what is rounded twice may differ.
        "ledger": asdict(verified.ledger) if verified and verified.ledger else None,
        "proof": cut.proof.to_json(),
        "checks": [check.to_json() for check in (verified.checks if verified else ())],
        "facts": cut.facts,
    }


def stored_drills(run: RunFile) -> list[DrillResult]:
    """The drills of a run file, as far as they have come; UsageError if they are damaged."""
    info = run.run
    try:
        return _results(run, info)
    except (KeyError, TypeError) as error:
        raise damaged(run.path, f"what it says of its drill is incomplete: {error}") from error


def _results(run: RunFile, info: RunInfo) -> list[DrillResult]:
    return [
        DrillResult(
            fault=row.fault,
            title=row.title,
            spec=info.spec,
            server=info.server,
            settings=row.settings,
            cuts=tuple(_cut(each, row) for each in run.cuts(row.id)),
            bound_ms=row.bound_ms,
            bound=row.bound,
            run_file=str(run.path),
            seed=row.seed,
            sham=bool(row.sham),
            pooled=find_fault(row.fault).pooled,
        )
        for row in run.drills()
    ]


def _cut(row: CutRow, drill: DrillRow) -> Cut:
    return Cut(
        number=row.number,
        fault=drill.fault,
        variant=row.variant,
        seed=row.seed,
        at_ms=row.load_ms,
        proof=Proof(**row.proof),
        verified=_verified(row),
        facts=row.facts,
    )


def _verified(row: CutRow) -> Verified | None:
    """What was verified; a fault that did not happen leaves nothing that counts."""
    if row.outcome == "no-fault":
        return None
    return Verified(
        outcome=row.outcome,  # type: ignore[arg-type]
        ledger=LedgerCount(**row.ledger) if row.ledger else None,
        recovery_s=row.recovery_s,
        checks=tuple(Check(**check) for check in row.checks),
        seen_by=row.seen_by,
        server_said=row.server_said,
    )
