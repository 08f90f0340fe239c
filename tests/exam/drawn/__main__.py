"""``python -m exam.drawn``: carry draws out, one process each, and grade them.

``exam-random.json`` has each draw with its load, causes, truth and verdict. A seed gives the same
draw each time, on the same versions of PostgreSQL and with the same kinds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from exam.drawn.drawing import ANY_PATTERN, HEALTHY, asked_for, version_of
from exam.drawn.grading import lines, table
from exam.machine import facts
from exam.processes import answer_of, home
from pgdyno.spec.units import parse_duration_ms

DRAW_S_MAX = 90.0
INVESTIGATIONS_MAX = 1.5
"""Times its budget that an investigation may take."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry the draws out; return the exit status."""
    parser = _parser()
    given = parser.parse_args(argv)
    if HEALTHY not in given.kinds.split(",") and not asked_for(given.kinds):
        parser.error(f"no cause matches {given.kinds}")
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    rows = []
    with home():
        for number, seed in enumerate(range(given.seed, given.seed + given.seeds), start=1):
            rows.append(row := carried_out(seed, given))
            _keep(given.keep, row)
            print(f"{number:>4}/{given.seeds} {line(row)}", flush=True)
            _write(given, rows)
    print("\n".join(lines(table(rows))))
    return 0


def _keep(folder: Path | None, row: Mapping[str, Any]) -> None:
    """Write the row beside the run file that was kept, if one was."""
    if folder is not None and (kept := folder / f"draw-{row['seed']}").is_dir():
        (kept / "row.json").write_text(json.dumps(row, indent=1) + "\n")


def _write(given: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> None:
    result = {
        "machine": facts(busy=given.busy_machine),
        "kinds": given.kinds,
        "table": table(rows),
        "draws": rows,
    }
    given.output.write_text(json.dumps(result, indent=1) + "\n")


def carried_out(seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Carry a draw out in a process of its own; return its row."""
    began_s = time.monotonic()
    asked = {
        "seed": seed,
        "version": version_of(seed, given.versions),
        "kinds": given.kinds,
        "busy_machine": given.busy_machine,
        "keep": None if given.keep is None else str(given.keep.absolute()),
        "budget": given.investigate,
    }
    seconds_max = DRAW_S_MAX
    if given.investigate is not None:
        seconds_max += INVESTIGATIONS_MAX * parse_duration_ms(given.investigate) / 1000
    row = answer_of("exam.drawn.examinee", asked, seconds_max=seconds_max)
    if "error" in row:
        row = {"seed": seed, "version": asked["version"], "outcome": "failed", **row}
    return row | {"kinds": given.kinds, "took_s": round(time.monotonic() - began_s, 1)}


def line(row: Mapping[str, Any]) -> str:
    """Return the lines of a draw: what was planted, what it is worth, and what was said of it."""
    head = f"{row['seed']:>5} on {row['version']} {row['took_s']:>4.0f} s "
    if not row.get("causes"):
        what = "healthy" if row.get("healthy") else row.get("error", "")
        return f"{head} {row['outcome']:<12} {what} {row.get('why', '')}"
    return "\n".join(_cause_lines(head, row))


def _cause_lines(head: str, row: Mapping[str, Any]) -> Iterator[str]:
    for number, cause in enumerate(row["causes"]):
        truth = cause.get("truth")
        worth = f"{truth['ratio']:.2f}x [{truth['low']:.2f}, {truth['high']:.2f}]" if truth else ""
        first = head if number == 0 else " " * (len(head) + 10)
        why = row.get("why") or cause.get("why", "")
        yield f"{first} {cause['outcome']:<12} {cause['name']:<20} {worth:<22} {why}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m exam.drawn", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="number of draws")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument(
        "--kinds", default=ANY_PATTERN, metavar="PATTERN,…", help="causes, kinds, or healthy"
    )
    parser.add_argument(
        "--versions",
        type=lambda text: tuple(map(int, text.split(","))),
        default=(18, 15),
        metavar="A,B",
    )
    parser.add_argument("--output", type=Path, default=Path("exam-random.json"))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep run files and specs there")
    parser.add_argument(
        "--investigate",
        metavar="TIME",
        help="let `pgdyno investigate` undo the causes of closed loops, each within this budget",
    )
    parser.add_argument(
        "--busy-machine", action="store_true", help="grade draws that other programs disturbed"
    )
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; --seed continues")
