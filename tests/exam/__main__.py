"""``python -m exam``: carry the cases out, one process each, and grade them.

Finished cases are appended to a file beside the result, so that an exam that was broken off
continues where it ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exam.cells import cells
from exam.grading import outcome, summary
from exam.machine import facts
from exam.model import Case, cases_of
from exam.processes import answer_of, home

CASE_S_MAX = 120
_TRIES = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Carry the exam out; return the exit status."""
    given = _parser().parse_args(argv)
    done_path = given.output.with_suffix(".jsonl")
    if given.fresh:
        done_path.unlink(missing_ok=True)
    done = _finished(done_path)
    asked = cases_of(cells(), seeds=given.seeds, versions=given.versions, pattern=given.cells)
    planned = [case for case in asked if given.half in (None, case.half)]
    with home():
        for number, case in enumerate(planned, start=1):
            if case.name not in done:
                row = carry_out(case, given)
                done[case.name] = row
                with done_path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(f"{number:>4}/{len(planned)} {line(done[case.name])}", flush=True)
    rows = [done[case.name] for case in planned]
    result = {"machine": facts(busy=given.busy_machine), **summary(rows)}
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    print("\n".join(last_lines(result)))
    return 0


def carry_out(case: Case, given: argparse.Namespace) -> dict[str, Any]:
    """Carry a case out in a process of its own, again if other programs disturbed it."""
    row: dict[str, Any] = {}
    for _ in range(_TRIES):
        began_s = time.monotonic()
        answer = _answer(case, given)
        row = {
            "cell": case.cell,
            "cause": case.cause.name,
            "seed": case.seed,
            "version": case.version,
            "intensity": case.intensity,
            "half": case.half,
            "healthy": case.cause.healthy,
            "said": answer.get("said"),
            "rank1": answer.get("rank1"),
            "outcome": outcome(case.cause, answer, busy_machine=given.busy_machine),
            **answer,
            "took_s": round(time.monotonic() - began_s, 1),
        }
        row["correct"] = row["outcome"] == "correct"
        if row["outcome"] != "disturbed":
            break
    return row


def _answer(case: Case, given: argparse.Namespace) -> dict[str, Any]:
    asked = {
        "cell": case.cell,
        "cause": case.cause.name,
        "seed": case.seed,
        "version": case.version,
        "busy_machine": given.busy_machine,
        "keep": None if given.keep is None else str(given.keep.absolute()),
        "file": case.name.replace("/", "-"),
    }
    return answer_of("exam.examinee", asked, seconds_max=CASE_S_MAX)


def _finished(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of the cases that came to an end; those that failed are carried out again."""
    if not path.exists():
        return {}
    rows = [json.loads(text) for text in path.read_text().splitlines() if text.endswith("}")]
    return {
        f"{row['cell']}/{row['cause']}/{row['seed']}/{row['version']}": row
        for row in rows
        if row["outcome"] != "failed"
    }


def line(row: Mapping[str, Any]) -> str:
    """Return a case's line of the table, which tells nothing to tune to of the half that grades."""
    said = row["rank1"] or row["said"] or row.get("missing") or row.get("error") or ""
    said = said if row["half"] == "calibration" else "(held out)"
    tps = f"{row['throughput_tps']:>8.0f} tps" if "throughput_tps" in row else " " * 12
    where = f"{row['cell']}/{row['cause']}"
    owned = "" if row.get("owned") is None else f" owns {row['owned']:.0%}"
    return (
        f"{where:<32} {row['version']} x{row['intensity']:<4g}{tps}"
        f"  {row['outcome']:<11} {said}{owned}"
    )


def last_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary's lines."""
    for half in ("calibration", "held_out"):
        each = result[half]
        low, high = each["correct_ci95"]
        wrong_low, wrong_high = each["wrong_ci95"]
        yield (
            f"{half.replace('_', ' '):<12} {each['n']:>4} graded: {each['correct']} correct"
            f" ({low:.0%} to {high:.0%}), {each['wrong']} wrong ({wrong_low:.0%} to"
            f" {wrong_high:.0%}), {each['unexplained']} unexplained; {each['healthy_false_alarms']}"
            f" false alarms in {each['healthy_runs']} healthy runs; {each['not_graded']} not graded"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m exam", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="cases of each cause and version")
    parser.add_argument("--cells", default="*", metavar="PATTERN", help="CELL or CELL/CAUSE, …")
    parser.add_argument(
        "--versions",
        type=lambda text: tuple(map(int, text.split(","))),
        default=(18, 15),
        metavar="A,B",
    )
    parser.add_argument("--half", choices=("calibration", "held_out"), help="default: both")
    parser.add_argument("--output", type=Path, default=Path("exam.json"))
    parser.add_argument("--fresh", action="store_true", help="forget the cases that are finished")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the run files there")
    parser.add_argument(
        "--busy-machine", action="store_true", help="grade cases that other programs disturbed"
    )
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command continues the exam")
