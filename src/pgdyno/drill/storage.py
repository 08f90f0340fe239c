"""Drills in run files: written cut by cut, read back as the same results."""

from __future__ import annotations

from msgspec.structs import asdict

from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import Check, Cut, DrillOptions, DrillResult, LedgerCount, Proof, Verified
from pgdyno.record import CutRow, DrillRow, Recorder, RunFile, RunInfo
from pgdyno.record.facts import ServerFacts
from pgdyno.record.opening import damaged
from pgdyno.spec.disk import emulated_in_words


def store_drill(recorder: Recorder, drill: DrillResult, options: DrillOptions) -> int:
    """Add a drill without its cuts to the run file, and return its number there."""
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
    """Add a cut whose fault was injected at monotonic ``ns``."""
    recorder.add_cut({"drill_id": drill_id, **_row(cut)}, ns=ns)


def _row(cut: Cut) -> dict[str, object]:
    """Return the columns of table ``cut``, except the drill and the time."""
    return {
        "number": cut.number,
        "load_ms": cut.at_ms,
        "variant": cut.variant,
        "seed": cut.seed,
        "outcome": cut.outcome,
        "seen_by": cut.seen_by,
        "server_said": cut.server_said,
        "recovery_s": cut.recovery_s,
        # Exact figures: results round, and a figure that is rounded twice may differ.
        "ledger": asdict(cut.verified.ledger) if cut.verified and cut.verified.ledger else None,
        "proof": asdict(cut.proof),
        "checks": [asdict(check) for check in cut.checks],
        "facts": cut.facts,
    }


def stored_drills(run: RunFile) -> list[DrillResult]:
    """Return the drills of a run file, with the cuts so far. Raises UsageError if damaged."""
    info = run.run
    try:
        return _results(run, info)
    except (KeyError, TypeError) as error:
        raise damaged(run.path, f"the record of its drill is incomplete: {error}") from error


def version_of(server: ServerFacts) -> str:
    """Return the version in a server's recorded facts, without the suffix of a package."""
    return server.get("version", "").split(" (")[0]


def _results(run: RunFile, info: RunInfo) -> list[DrillResult]:
    return [
        DrillResult(
            fault=row.fault,
            title=row.title,
            settings=row.settings,
            cuts=tuple(_cut(each, row) for each in run.cuts(row.id)),
            bound_ms=row.bound_ms,
            bound=row.bound,
            server_version=version_of(info.server),
            emulated=emulated_in_words([info.spec]),
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
    """Return the verification of a cut; ``None`` if the fault did not happen."""
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
