"""Drills in run files: stored without their cuts, read back as the same results."""

from __future__ import annotations

from msgspec.structs import asdict

from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import DrillOptions, drill_of
from pgdyno.record import Recorder, RunFile, RunInfo
from pgdyno.record.facts import ServerFacts
from pgdyno.record.opening import damaged
from pgdyno.results.drill import Drill
from pgdyno.spec.disk import emulated_in_words


def store_drill(recorder: Recorder, drill: Drill, options: DrillOptions) -> int:
    """Add a drill without its cuts to the run file, and return its number there."""
    return recorder.add_drill(
        fault=drill.fault,
        title=drill.title,
        seed=drill.seed,
        sham=int(drill.sham),
        options=asdict(options),
        settings=drill.settings,
        bound_ms=drill.summary.bound_ms,
        bound=drill.bound,
    )


def stored_drills(run: RunFile) -> list[Drill]:
    """Return the drills of a run file, with the cuts so far. Raises UsageError if damaged."""
    info = run.run
    try:
        return _results(run, info)
    except (KeyError, TypeError) as error:
        raise damaged(run.path, f"the record of its drill is incomplete: {error}") from error


def version_of(server: ServerFacts) -> str:
    """Return the version in a server's recorded facts, without the suffix of a package."""
    return server.get("version", "").split(" (")[0]


def _results(run: RunFile, info: RunInfo) -> list[Drill]:
    return [
        drill_of(
            fault=row.fault,
            title=row.title,
            settings=row.settings,
            cuts=run.cuts(row.id),
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
