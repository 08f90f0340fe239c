"""The price list: gains first, then drills, within one budget of time, as one result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.conduct import Session
from pgdyno.errors import UsageError
from pgdyno.investigate.compare import noise_json
from pgdyno.investigate.result import distrust
from pgdyno.investigate.trial import Measure, Noise
from pgdyno.price.against import Priced, comparison
from pgdyno.price.candidates import Candidate
from pgdyno.price.gain import Gain, check_real_disk, measure_gains
from pgdyno.price.loss import DrillPlan, drill_all, no_drills
from pgdyno.price.sentences import sentence, verdict
from pgdyno.spec import Spec

SCHEMA_VERSION = 1
CUTS = 6
SECONDS_PER_CANDIDATE = 65.0
"""Default time for each candidate, the baseline among them: the whole ladder takes 13 minutes."""
_GAIN_SHARE = 0.55


@dataclass(frozen=True)
class Asked:
    """What is to be priced, and how long it may take."""

    candidates: Sequence[Candidate]
    cuts: int
    """Of each drill, at most; 0: no drills."""
    budget_s: float
    seed: int


def default_budget_s(candidates: Sequence[Candidate], cuts: int) -> float:
    """Time for so many candidates; without drills, what their gains take."""
    share = 1.0 if cuts else _GAIN_SHARE
    return SECONDS_PER_CANDIDATE * len(candidates) * share


def check_price(spec: Spec, candidates: Sequence[Candidate]) -> None:
    """Raise :class:`UsageError` for what cannot be priced, before anything is started."""
    if spec.server.kind == "existing":
        raise UsageError(
            "prices are measured by crashing the server, and pgdyno crashes only servers that it"
            " started",
            code="not-ours",
            hint="leave the connection string out; --pg-bindir names the server's programs",
        )
    check_real_disk(spec)
    for candidate in candidates:
        candidate.spec(spec)


def price(session: Session, asked: Asked, against: Priced | None = None) -> Priced:
    """Measure and drill ``asked`` under the session's load; the result, also recorded.

    ``against`` is the same list on another server, kept in the result for comparison. Raises
    UsageError at once for a setting that this server does not have.
    """
    began_s = time.monotonic()
    for candidate in asked.candidates:
        session.target.settings.check(dict(candidate.change.settings))
    gain_s = asked.budget_s * (_GAIN_SHARE if asked.cuts else 1.0)
    noise, gains = measure_gains(session, asked.candidates, budget_s=gain_s)
    if asked.cuts:
        cuts = {fault: asked.cuts for each in asked.candidates for fault in each.faults}
        plan = DrillPlan(cuts, asked.seed, began_s + asked.budget_s)
        drilled = drill_all(session, asked.candidates, plan)
    else:
        drilled = no_drills(asked.candidates, "no cuts were asked for")
    result = _result(session, asked, noise, gains, drilled.cells)
    result["elapsed_s"] = round(time.monotonic() - began_s, 1)
    priced = Priced(result, drilled.drills)
    if against is not None:
        priced.result.update(comparison(priced, against))
    session.recorder.update_run(result=priced.result)
    return priced


def _result(
    session: Session,
    asked: Asked,
    noise: Noise,
    gains: Mapping[str, Gain],
    losses: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    run = session.reader()
    rows = [
        _row(candidate, gains.get(candidate.id), losses[candidate.id])
        for candidate in asked.candidates
    ]
    reasons = [*distrust(run, []), *_faults_missing(rows)]
    return {
        "schema_version": SCHEMA_VERSION,
        "run_file": str(run.path),
        "trustworthy": not reasons,
        "distrust": reasons,
        "server_version": str(run.run.server.get("version", "")),
        "noise_floor": noise_json(noise, _compared(gains, noise)),
        "compared": _compared(gains, noise),
        "cuts": asked.cuts,
        "seed": asked.seed,
        "prices": rows,
        "verdict": verdict(rows),
    }


def _row(
    candidate: Candidate, gain: Gain | None, losses: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    row = {
        "candidate": candidate.id,
        "title": candidate.title,
        "durability_class": candidate.durability_class,
        "remedy": candidate.remedy,
        "change": candidate.change.to_json(),
        "base": candidate.base.to_json(),
        "bound": candidate.bound,
        "gain": gain.to_json() if gain else None,
        "losses": [dict(loss) for loss in losses],
    }
    return {**row, "sentence": sentence(row)}


def _compared(gains: Mapping[str, Gain], noise: Noise) -> Measure:
    """What the trials were decided by."""
    measures = [gain.answer.measure for gain in gains.values() if gain.answer]
    return measures[-1] if measures else noise.measure


def _faults_missing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{loss['fault']} under {row['title']}: the fault did not happen in"
        f" {loss['cuts'] - loss['happened']} of {loss['cuts']} cuts"
        for row in rows
        for loss in row["losses"]
        if loss["drilled"] and loss["happened"] < loss["cuts"]
    ]


def broken_promises(result: Mapping[str, Any]) -> list[str]:
    """Titles of what is documented to lose nothing, or to stay sound, and did not.

    A loss that reaches back a little further than documented is a price, and the list says so.
    """
    return [
        row["title"]
        for row in result["prices"]
        if any(loss["drilled"] and _breaks_promise(loss) for loss in row["losses"])
    ]


def _breaks_promise(loss: Mapping[str, Any]) -> bool:
    damaged = loss["corrupt"] + loss["refused"] > 0
    return bool(loss["worse_than_bound"] and (damaged or loss["bound_ms"] == 0))
