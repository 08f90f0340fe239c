"""``python -m exam.drawn.again DIR…``: diagnose run files that were kept once more, by the rules as
they are now, and grade them by the truth that was measured then.

A directory is one of ``python -m exam.drawn --keep``. A change of the rules is judged by hundreds
of draws in less than a minute. What pgdyno does while a load runs, such as looking at plans, stays
as it was: only new draws show a change of that. Printed are the causes of which the outcome is
another one than then, or not right, and the table. Investigations are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import convert

from exam.drawn import grading
from exam.drawn.answers import Finding, Promise, promises
from exam.drawn.drawing import draw
from exam.drawn.model import ServerFacts
from exam.drawn.truth import Truth
from exam.drawn.world import facts_of
from exam.processes import home
from pgdyno.diagnose import diagnose
from pgdyno.record import RunFile
from pgdyno.server import Cluster, find_installation

_UNREMARKABLE = ("right", grading.NOT_WORTH)
_DRAWN_OTHERWISE = "drawn otherwise"


def main(argv: Sequence[str] | None = None) -> int:
    """Grade what was kept; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m exam.drawn.again", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    given = parser.parse_args(argv)
    kept = [each for folder in given.folders for each in sorted(folder.glob("draw-*/row.json"))]
    if not kept:
        parser.error("no row.json in a directory draw-SEED there")
    rows = [(path.parent, json.loads(path.read_text())) for path in kept]
    servers = {version: _facts(version) for version in {row["version"] for _, row in rows}}
    again = []
    for folder, row in rows:
        if "verdict" in row and row["outcome"] in (*grading.GRADED, grading.NOT_WORTH):
            again.append(graded_again(folder / "run.db", row, servers[row["version"]]))
            for line in _lines(row, again[-1]):
                print(line, flush=True)
    print("\n".join(grading.lines(grading.table(again))))
    return 0


def _facts(version: int) -> ServerFacts:
    with home(), Cluster.create(find_installation(None, version), {}) as cluster:
        return facts_of(cluster, version)


def graded_again(file: Path, row: Mapping[str, Any], server: ServerFacts) -> dict[str, Any]:
    """Return the row of a draw with the outcomes of a new diagnosis of its run file."""
    with RunFile(file) as run:
        diagnosis = diagnose(run, [each.id for each in run.slices()])
    findings = [each.model_dump(mode="json", by_alias=True) for each in diagnosis.findings]
    if row["healthy"]:
        return {**row, "outcome": grading.of_healthy(findings).outcome}
    drawn = draw(row["seed"], server, row["kinds"])
    if [fault.entry for fault in drawn.faults] != [cause["name"] for cause in row["causes"]]:
        causes = [{**cause, "outcome": _DRAWN_OTHERWISE} for cause in row["causes"]]
        return {**row, "outcome": _DRAWN_OTHERWISE, "causes": causes}
    grades = grading.of_causes(
        drawn.faults,
        {cause["name"]: convert(cause["truth"], Truth) for cause in row["causes"]},
        server,
        findings,
        diagnosis.verdict.finding,
        promised=[*_still_promised(row["promised"], findings)],
        held=row["rate_tps"] is not None and row["planted_tps"] >= row["rate_tps"],
    )
    causes = [
        {**cause, "outcome": grade.outcome, "why": grade.why}
        for cause, (grade, _) in zip(row["causes"], grades, strict=True)
    ]
    return {**row, "outcome": causes[0]["outcome"], "causes": causes}


def _still_promised(
    promised: Sequence[Mapping[str, Any]], findings: Sequence[Finding]
) -> Iterator[tuple[Promise, Truth]]:
    """Yield the promises of changes that were measured, as they are made now."""
    for each in promised:
        for promise in promises(findings):
            if promise.change == each["promise"]["change"]:
                yield promise, convert(each["truth"], Truth)


def _lines(was: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each cause, or healthy load, that is remarkable."""
    before = was["causes"] or [{"name": "healthy", "outcome": was["outcome"]}]
    after = row["causes"] or [{"outcome": row["outcome"]}]
    for old, new in zip(before, after, strict=True):
        if old["outcome"] != new["outcome"] or new["outcome"] not in _UNREMARKABLE:
            outcomes = f"{old['outcome']} -> {new['outcome']}"
            yield f"{row['seed']:>6} {old['name']:<24} {outcomes:<24} {new.get('why', '')}"


if __name__ == "__main__":
    sys.exit(main())
