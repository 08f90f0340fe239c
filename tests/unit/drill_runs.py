"""Run files of drills that look like real ones, for tests of what reads them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report_runs

from pgdyno.drill._bounds import of_a_crash
from pgdyno.drill.model import DrillOptions, Verified, drill_of
from pgdyno.drill.storage import store_drill
from pgdyno.drill.two_servers import comparison
from pgdyno.record import Recorder
from pgdyno.record.cut import Check, Cut, LedgerCount, Proof
from pgdyno.remedy import Circumstances
from pgdyno.results import store
from pgdyno.results.drill import Drill, DrillResult
from pgdyno.spec.server_settings import ActiveSettings

SETTINGS = {
    "synchronous_commit": "off",
    "wal_writer_delay": "200ms",
    "wal_writer_flush_after": "1MB",
    "fsync": "on",
    "full_page_writes": "on",
}
SPEC = {**report_runs.SPEC, "name": "drill-kill"}


def sample_cut(number: int, rng: random.Random, lost: int, *, outcome: str | None = None) -> Cut:
    """A cut that lost ``lost`` commits, unless ``outcome`` says something else."""
    ledger = LedgerCount(
        acked=rng.randint(2000, 3000), lost=lost, lost_ms=lost / 20, unknown=16, ghost=number % 3
    )
    outcome = outcome or ("lost" if lost else "clean")
    checks = (
        Check(
            name="ledger",
            passed=outcome != "lost",
            detail=f"{lost} of {ledger.acked} are absent",
            seconds=0.02,
        ),
        Check(
            name="amcheck", passed=outcome != "corrupt", detail="pgbench_accounts_pkey", seconds=0.8
        ),
        Check(name="checksums", passed=None, detail="data checksums are off", seconds=0.0),
    )
    refused = outcome == "refused"
    verified = Verified(
        outcome,  # type: ignore[arg-type]
        None if refused else ledger,
        None if refused else rng.uniform(0.1, 0.4),
        () if refused else checks,
        {"lost": "ledger", "corrupt": "amcheck", "refused": "start"}.get(outcome, ""),
        "PANIC:  could not locate a valid checkpoint record" if refused else "",
    )
    proof = Proof(
        happened=outcome != "no-fault", sentence="all 24 server processes are gone", facts={"n": 24}
    )
    return verified.of(
        cut_with(proof, number=number, seed=rng.getrandbits(31), at_ms=rng.uniform(800, 1400))
    )


def cut_with(proof: Proof, **more: Any) -> Cut:
    """A cut that was not verified."""
    members = {"number": 1, "variant": "", "seed": 5, "at_ms": 1000.0, "outcome": "no-fault"}
    return Cut.model_validate({**members, "proof": proof, **more})


def drill_with(cuts: Sequence[Cut], bound_ms: float | None, **more: Any) -> Drill:
    """A drill of ``cuts``."""
    members = {"fault": "kill", "title": "killed", "settings": {}, "bound": "", "emulated": None}
    members |= {"server_version": "", "run_file": "", "seed": 0, "sham": False, "pooled": False}
    return drill_of(cuts=cuts, bound_ms=bound_ms, **(members | more))


def sample_drill(losses: list[int], *, version: str = "18.6", **more: Any) -> Drill:
    """A drill on a server of ``version`` whose cuts lost what ``losses`` says."""
    rng = random.Random(1)
    bound = of_a_crash(Circumstances(ActiveSettings(SETTINGS)))
    cuts = [sample_cut(number, rng, lost) for number, lost in enumerate(losses, 1)]
    title = f"SIGKILL of all of the server's processes at once, PostgreSQL {version}"
    told = {"title": title, "server_version": version, "seed": 7, "settings": SETTINGS}
    told |= {"cuts": cuts, "bound_ms": bound.ms, "bound": bound.words}
    return drill_with(**(told | more))


def write_drill(path: Path, drill: Drill, against: Drill | None = None) -> Path:
    """The run file of a drill that came to its end."""
    with Recorder.create(
        path, name="drill-kill", command="drill", spec=SPEC, host=report_runs.HOST,
        server={**report_runs.SERVER, "version": drill.server_version},
    ) as recorder:  # fmt: skip
        drill_id = store_drill(recorder, drill, DrillOptions(drill.fault))
        for cut in drill.cuts:
            recorder.add_cut(drill_id, cut, ns=recorder.started_ns)
        cuts = ["--cuts", str(len(drill.cuts))]
        recorder.update_run(asked=["--fault", drill.fault, *cuts, "--seed", str(drill.seed)])
        more = {} if against is None else comparison(drill, against)
        store(recorder, DrillResult.model_validate({**dict(drill), **more}))
        recorder.finish("done")
    return path


def lossy_run(path: Path) -> Path:
    """Twenty cuts, each with a loss, then a refusal and a corrupt one; two servers."""
    rng = random.Random(2)
    losses = [rng.randint(700, 2300) for _ in range(18)]
    harmed = [
        sample_cut(19, rng, 0, outcome="refused"),
        sample_cut(20, rng, 0, outcome="corrupt"),
    ]
    drill = sample_drill([], cuts=[*sample_drill(losses).cuts, *harmed])
    return write_drill(path, drill, sample_drill([rng.randint(0, 16) for _ in range(20)],
                                                 version="15.20"))  # fmt: skip


def harmless_run(path: Path) -> Path:
    """Twenty cuts that lost nothing."""
    settings = {**SETTINGS, "synchronous_commit": "on"}
    bound = of_a_crash(Circumstances(ActiveSettings(settings)))
    drill = sample_drill([0] * 20, settings=settings, bound_ms=bound.ms, bound=bound.words)
    return write_drill(path, drill)
