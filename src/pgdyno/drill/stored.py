"""Drills in run files: written cut by cut, read back as the results that they were."""

from __future__ import annotations

import dataclasses
from typing import Any

from pgdyno.drill.model import Check, Cut, DrillResult, LedgerCount, Proof, Verified
from pgdyno.record import CutRow, DrillRow, RunFile, RunInfo
from pgdyno.record.opening import damaged


def cut_row(cut: Cut, drill_id: int) -> dict[str, Any]:
    """The row of table cut, but for the time."""
    verified = cut.verified
    return {
        "drill_id": drill_id,
        "number": cut.number,
        "load_ms": cut.at_ms,
        "variant": cut.variant,
        "seed": cut.seed,
        "outcome": cut.outcome,
        "seen_by": verified.seen_by if verified else "",
        "server_said": verified.server_said if verified else "",
        "recovery_s": verified.recovery_s if verified else None,
        "ledger": dataclasses.asdict(verified.ledger) if verified and verified.ledger else None,
        "proof": cut.proof.to_json(),
        "checks": [
            {"name": check.name, **check.to_json()}
            for check in (verified.checks if verified else ())
        ],
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
        )
        for row in run.drills()
    ]


def _cut(row: CutRow, drill: DrillRow) -> Cut:
    proof = Proof(row.proof["happened"], row.proof["sentence"], row.proof["facts"])
    return Cut(
        row.number,
        drill.fault,
        row.variant,
        row.seed,
        row.load_ms,
        proof,
        _verified(row),
        row.facts,
    )


def _verified(row: CutRow) -> Verified | None:
    """What was verified; a fault that did not happen leaves nothing that counts."""
    if row.outcome == "no-fault":
        return None
    return Verified(
        row.outcome,  # type: ignore[arg-type]
        LedgerCount(**row.ledger) if row.ledger else None,
        row.recovery_s,
        tuple(Check(**check) for check in row.checks),
        row.seen_by,
        row.server_said,
    )
