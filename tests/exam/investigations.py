"""``python -m exam.investigations``: investigate cells of the exam, and say what was proved.

An investigation is right if the first finding that it proves is one that the cause accepts; the
remedy's effect is then as predicted, within the tolerance of a proof. Of these predictions two
counts are made: in how many the guess lies in the measured 95 % interval, and in how many the
predicted interval overlaps it. Each cause is investigated at intensity 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from exam.cells import cells
from exam.injectors import NotProducible
from exam.model import Case, Cause
from exam.specs import fields_of
from pgdyno import numbers
from pgdyno.conduct import Silent, open_session
from pgdyno.errors import PgdynoError
from pgdyno.investigate.loop import investigate
from pgdyno.spec import spec_from_fields
from pgdyno.spec.units import parse_duration_ms

CELLS = (
    "commit-wait/slow-flush,commit-wait/commit-delay,commit-wait/standby,few-at-once/client-pool,"
    "lock-queue/hot-row,cores/seq-scan,cores/jit,reads/temp-spill,reads/small-buffers"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Investigate the cells; return the exit status."""
    given = _parser().parse_args(argv)
    given.keep.mkdir(parents=True, exist_ok=True)
    wanted = given.cells.split(",")
    rows = []
    for name in wanted:
        for case in _cases(name, given.version):
            row = investigated(case, given.keep, parse_duration_ms(given.budget) / 1000)
            rows.append(row)
            print("\n".join(lines(row)), flush=True)
    (given.keep / "investigations.json").write_text(json.dumps(rows, indent=1) + "\n")
    print("\n".join(summary(rows)))
    return 0


def _cases(name: str, version: int) -> Iterator[Case]:
    """Yield the case of a cause on ``version``, or on the only one that it is for."""
    for cell in cells():
        for cause in cell.causes:
            if f"{cell.name}/{cause.name}" == name:
                chosen = version if version in cause.versions else cause.versions[0]
                yield Case(cell.name, cause, 1, chosen)


def investigated(case: Case, folder: Path, budget_s: float) -> dict[str, Any]:
    """Investigate a case for ``budget_s``; return what was tried and proved."""
    fields = fields_of(case, busy_machine=True, intensity=1.0)
    run = folder / f"{case.cell}-{case.cause.name}-{case.version}.db"
    run.unlink(missing_ok=True)
    row: dict[str, Any] = {"name": f"{case.cell}/{case.cause.name}", "version": case.version}
    try:
        with ExitStack() as stack:
            injected = case.cause.inject(fields, stack)
            spec = spec_from_fields(fields, where=case.name)
            session = stack.enter_context(
                open_session(spec, run=run, command="investigate", spec_text="", watcher=Silent())
            )
            if "begin" in injected:
                injected["begin"]()
            result = investigate(session, budget_s=budget_s, allow="D0", may_apply=False).to_json()
    except (NotProducible, PgdynoError) as problem:
        return row | {"error": str(problem), "right": False, "tried": [], "not_measured": []}
    return row | _said(case.cause, result)


def _said(cause: Cause, result: Mapping[str, Any]) -> dict[str, Any]:
    tried = [
        {
            "finding": step["finding"],
            "remedy": step["remedy"]["title"],
            "predicted": [step["predicted_ratio"], *(step["predicted_interval"] or ())],
            "measured": [step["effect"]["throughput_ratio"], *step["effect"]["ci95"]],
            "decision": step["decision"],
            "proof": step["proof"] and step["proof"]["status"],
        }
        for step in result["steps"]
    ]
    proved = [each["finding"] for each in tried if each["proof"] == "proved"]
    return {
        "proved": proved,
        "right": bool(proved) and proved[0] in cause.accepts,
        "tried": tried,
        "not_measured": [(each["title"], each["why"]) for each in result["not_measured"]],
    }


def lines(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an investigation."""
    outcome = "right" if row["right"] else row.get("error", "not proved, or another first")
    yield f"{row['name']} on {row['version']}: {outcome}"
    for each in row["tried"]:
        guess, *interval = each["predicted"]
        ratio, low, high = each["measured"]
        yield (
            f"  {each['finding']}: {each['remedy']}: predicted"
            f" {numbers.predicted(guess, interval)}, measured {numbers.effect(ratio, low, high)},"
            f" {each['decision']}, {each['proof']}"
        )
    for title, why in row["not_measured"]:
        yield f"  {title}: {why}"


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the counts of all investigations, and how wide the predictions' intervals are."""
    proofs = [first for row in rows if row["right"] and (first := _first_proof(row))]
    yield f"{len(proofs)} of {len(rows)} proved the injected cause first, as predicted"
    exact = sum(_overlap(each["predicted"][:1], each["measured"]) for each in proofs)
    yield f"in {exact} of these the guess lies in the measured interval"
    overlaps = sum(_overlap(each["predicted"], each["measured"]) for each in proofs)
    yield f"in {overlaps} of these the predicted interval overlaps the measured one"
    widths = [max(each["predicted"]) / min(each["predicted"]) for each in proofs]
    if widths:
        usual, most = median(widths), max(widths)
        yield f"high / low of the predicted intervals: median {usual:.1f}, at most {most:.1f}"


def _first_proof(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((each for each in row["tried"] if each["proof"] == "proved"), None)


def _overlap(predicted: Sequence[float], measured: Sequence[float]) -> bool:
    _, low, high = measured
    return min(predicted) <= high and low <= max(predicted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m exam.investigations", description=__doc__)
    parser.add_argument("--cells", default=CELLS, metavar="CELL/CAUSE,…")
    parser.add_argument("--version", type=int, default=18)
    parser.add_argument("--budget", default="3min")
    parser.add_argument("--keep", type=Path, default=Path("investigations"), metavar="DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
