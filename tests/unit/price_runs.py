"""Price lists to test reports on: cuts made up, figures and sentences made by the price room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import drill_runs
from report_runs import FREE, Level, Tried, Writer, write_trial
from result_samples import NONE_FAILED

from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import Verified
from pgdyno.price._loss import cells_of, not_drilled
from pgdyno.price.candidates import Candidate, ladder
from pgdyno.price.sentences import sentence, verdict
from pgdyno.record.cut import Cut, LedgerCount, Outcome, Proof
from pgdyno.results.common import FailuresBySide
from pgdyno.results.drill import Drill
from pgdyno.results.loss import Loss
from pgdyno.results.price import Gain, NotMeasured, Price

GAINS = {
    "commit-delay": 1.02, "async-10ms": 1.52, "async-200ms": 1.64, "async-2s": 1.66,
    "fpw-off": 1.31, "fpw-off-no-checksums": 1.33, "wal-tmpfs": 1.9, "wal-tmpfs-async": 1.6,
    "unlogged": 2.6, "fsync-off": 2.1,
}  # fmt: skip
BOUNDS_MS = {"async-10ms": 30.0, "async-200ms": 600.0, "async-2s": 6000.0}
NO_BOUND = {"D2", "D3"}


def cut(number: int, outcome: Outcome, lost: int = 0, lost_ms: float = 0.0, *,
        variant: str = "", promised: bool = True) -> Cut:  # fmt: skip
    """A cut with the outcome given; of one that refused, nothing is counted."""
    refused = outcome == "refused"
    ledger = None if refused else LedgerCount(acked=4000, lost=lost, lost_ms=lost_ms)
    verified = Verified(outcome, ledger, None if refused else 0.24)
    proof = Proof(happened=outcome != "no-fault", sentence="the processes are gone")
    facts = {"promised": promised}
    return verified.of(drill_runs.cut_with(proof, number=number, variant=variant, facts=facts))


def drilled(fault: str, cuts: Sequence[Cut], bound_ms: float | None) -> Drill:
    """The result of a drill of ``cuts``."""
    pooled = find_fault(fault).pooled
    return drill_runs.drill_with(cuts, bound_ms, fault=fault, title=fault, pooled=pooled)


def losses(candidate: Candidate) -> list[Loss]:
    """What the candidate's drills took, as they might have."""
    lossy = candidate.assessment.durability_class in NO_BOUND
    bound = None if lossy else BOUNDS_MS.get(candidate.id, 0.0)
    cells: list[Loss] = []
    for fault in candidate.assessment.faults:
        cells += cells_of(drilled(fault, _cuts(candidate.id, fault), bound))
    return cells


def _cuts(name: str, fault: str) -> list[Cut]:
    if name.startswith("fpw-off"):
        bad: Outcome = "corrupt" if name.endswith("checksums") else "refused"
        return [cut(n, bad if n % 2 else "clean") for n in range(8)]
    if name == "fsync-off":
        return [cut(n, "corrupt") for n in range(8)]
    if name == "wal-tmpfs":
        return [cut(n, "corrupt", 9, 3.0, variant="resetwal", promised=False) for n in range(3)]
    if name == "wal-tmpfs-async":
        return [
            cut(0, "lost", 12, 4.0, variant="promote"),
            cut(1, "corrupt", variant="resetwal", promised=False),
        ]
    if name == "unlogged":
        return [cut(n, "lost", 4000, 1500.0) for n in range(6)]
    if name.startswith("async"):
        delay_ms = {"async-10ms": 9.0, "async-200ms": 120.0, "async-2s": 900.0}[name]
        return [cut(n, "lost", 10 * n, delay_ms * n / 6) for n in range(1, 7)]
    return [cut(n, "clean") for n in range(6)]


def row(candidate: Candidate) -> dict[str, Any]:
    """An entry of the price list as JSON; one candidate's gain could not be measured."""
    return price(candidate).to_json()


def price(candidate: Candidate) -> Price:
    """An entry of the price list; one candidate's gain could not be measured."""
    ratio = GAINS.get(candidate.id)
    gain: Gain | NotMeasured | None = NotMeasured(
        measured=False, why="not measured: no standby here"
    )
    cells = losses(candidate)
    if candidate.is_baseline:
        gain = None
    elif ratio is None:
        cells = [not_drilled(fault, "needs root") for fault in candidate.assessment.faults]
    else:
        gain = Gain(
            measured=True, set_by=dict.fromkeys(candidate.change.settings, "reload"),
            throughput_ratio=ratio, ci95=(ratio * 0.96, ratio * 1.04),
            latency_p99_ratio=ratio**-0.6, latency_p99_ci95=(ratio**-0.6 * 0.9, ratio**-0.6 * 1.1),
            pairs=6, compared="throughput", baseline_tps=480.0, changed_tps=480.0 * ratio,
            verdict="better" if ratio > 1.1 else "no difference",
            failures=FailuresBySide.model_validate(NONE_FAILED), postponed=(), against=(),
        )  # fmt: skip
    return Price(
        candidate=candidate.id, title=candidate.title,
        durability_class=candidate.assessment.durability_class, remedy=candidate.remedy,
        change=candidate.change.to_json(), base=candidate.base.to_json(),
        bound=candidate.assessment.bound, gain=gain, losses=tuple(cells),
        sentence=sentence(gain, cells),
    )  # fmt: skip


def price_result(rows: Sequence[Mapping[str, Any]], run_file: str = "run.db") -> dict[str, Any]:
    """The result of ``pgdyno price`` with ``rows``."""
    return {
        "schema_version": 1, "run_file": run_file, "trustworthy": True, "distrust": [],
        "incidents": [],
        "server_version": "18.6", "noise_floor": {
            "of": "throughput", "ci95": [0.97, 1.03], "pairs": 6, "six_pairs_show": 0.045,
        },
        "compared": "throughput", "cuts": 6, "seed": 1, "prices": [*rows],
        "verdict": verdict([Price.model_validate(each) for each in rows]), "elapsed_s": 812.0,
    }  # fmt: skip


def price_run(path: Path, **run: Any) -> Path:
    """``pgdyno price`` with the whole ladder."""
    writer = Writer(path, 200, command="price", spec_text="", **run)
    write_trial(writer, Tried("noise", "identical slices", FREE, FREE))
    for candidate in ladder():
        ratio = GAINS.get(candidate.id)
        if ratio is None:
            continue
        faster = Level(int(FREE.tps * ratio), 2.0, 0.0, 16, FREE.waits)
        columns = {
            "remedy": candidate.remedy, "durability_class": candidate.assessment.durability_class,
            "verdict": "better" if ratio > 1.1 else "no difference",
        }  # fmt: skip
        write_trial(
            writer,
            Tried("price", candidate.title, FREE, faster, candidate.change.to_json(),
                  candidate.base.to_json(), columns, pairs=1),
        )  # fmt: skip
    rows = [row(candidate) for candidate in ladder()]
    writer.recorder.update_run(result=price_result(rows, path.name))
    return writer.finish()
