"""``python -m exam.captures``: capture loads, make them again, and compare, one process each.

``exam-captures.json`` has each load with the figures of both sides; ``--write`` puts the table into
``docs/captures.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from exam.captures.model import Fields, Load, Times, loads
from exam.captures.page import PAGE, lines_of, page, table
from exam.machine import facts
from exam.processes import answer_of, home

_MORE_S = 240.0
"""Time that a load may take beside its slices."""
_TRANSFER_S = 1800.0


def main(argv: Sequence[str] | None = None) -> int:
    """Carry the loads out; return the exit status."""
    parser = _parser()
    given = parser.parse_args(argv)
    patterns = given.loads.split(",")
    chosen = [each for each in loads() if any(fnmatchcase(each.name, one) for one in patterns)]
    if given.write and given.transfer and not given.add:
        parser.error("--transfer --write adds to the figures of an exam: --add")
    if given.transfer:
        chosen = [each for each in chosen if each.index]
    if not chosen:
        parser.error(f"no load matches {given.loads}")
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        if taken := [each.name for each in chosen if (given.keep / each.name).exists()]:
            parser.error(f"{given.keep} has {', '.join(taken)} already")
    rows = _kept(given.output) if given.add else {}
    with home():
        for load in chosen:
            row = carried_out(load, given)
            print("\n".join(lines_of(row)), flush=True)
            # Changes are added to the figures of an exam before.
            rows[load.name] = {**rows.get(load.name, {}), **row} if given.transfer else row
            ordered = [rows[each.name] for each in loads() if each.name in rows]
            result = {"machine": facts(busy=True), "loads": ordered}
            given.output.write_text(json.dumps(result, indent=1) + "\n")
    if not given.transfer:
        print("\n".join(table(ordered)))
    if given.write:
        PAGE.write_text(page(result))
    return 0


def _kept(output: Path) -> dict[str, Fields]:
    """Return the rows of an exam before."""
    if not output.exists():
        return {}
    return {row["load"]: row for row in json.loads(output.read_text())["loads"]}


def carried_out(load: Load, given: argparse.Namespace) -> Fields:
    """Carry a load out in a process of its own; return its row."""
    began_s = time.monotonic()
    times = Times(
        given.capture or load.times.capture_s,
        given.rounds or load.times.rounds,
        given.seconds or load.times.slice_s,
    )
    asked = {
        "load": load.name,
        "times": msgspec.to_builtins(times),
        "reads": given.reads,
        "transfer": given.transfer,
        "keep": None if given.keep is None else str((given.keep / load.name).absolute()),
    }
    taken_s = load.grown_s + 2 * times.capture_s + 4 * times.rounds * times.slice_s
    seconds_max = _TRANSFER_S if given.transfer else _MORE_S + taken_s
    row = answer_of("exam.captures.examinee", asked, seconds_max=seconds_max)
    row = {"load": load.name, **row, "took_s": round(time.monotonic() - began_s, 1)}
    if given.transfer:
        return row
    clients = None if load.is_application else load.clients
    choices = {"times": asked["times"], "grown_s": load.grown_s, "reads": given.reads}
    return {"clients": clients, **choices, **row}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m exam.captures", description=__doc__)
    parser.add_argument("--loads", default="*", metavar="PATTERN,…", help="loads by their names")
    parser.add_argument("--seconds", type=float, help="length of a slice, if not the load's own")
    parser.add_argument("--rounds", type=int, help="slices of each side, likewise")
    parser.add_argument("--capture", type=float, help="length of the capture, likewise")
    parser.add_argument(
        "--reads", action="store_true", help="let the capturing role read all data as well"
    )
    parser.add_argument("--output", type=Path, default=Path("exam-captures.json"))
    parser.add_argument(
        "--add", action="store_true", help="keep the other loads that the output has"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep captures and run files there"
    )
    parser.add_argument(
        "--transfer",
        action="store_true",
        help="measure six changes on originals and clones instead, 20 minutes a load",
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
