"""One load, carried out in a process of its own: JSON in, JSON out."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from exam.captures import measuring, sides
from exam.captures.application import NotInstalled, application_side
from exam.captures.grading import figures, plans_alike, rows_alike
from exam.captures.measuring import Executed, Slice
from exam.captures.model import GROWTH_S, Fields, Load, Times, loads
from exam.captures.plans import names_of, shape_of_plan
from exam.captures.sides import Side
from exam.captures.transfer import transferred
from exam.machine import neighbours
from pgdyno.clone import Capture, read_capture
from pgdyno.clone.difference import shape_of
from pgdyno.errors import PgdynoError

_WARM_S = 3.0
"""Load before the capture."""
_RISEN_S = 1.5
"""Load before a slice whose sessions stay: by then they report once a second."""
_FINDINGS_S = 6.0


def carried_out(load: Load, asked: Fields, folder: Path) -> Fields:
    """Carry a load out; return its row. Raises PgdynoError, NotInstalled, or Refused."""
    path, times = folder / f"{load.name}.pgdyno", msgspec.convert(asked["times"], Times)
    with ExitStack() as stack:
        with ExitStack() as first:
            source = first.enter_context(_source(load, folder))
            _grow(source, load.growths)
            loaded_s, before = _captured(source, path, times.capture_s, asked["reads"])
            if not asked["transfer"]:
                stack.push(first.pop_all())
        if asked["transfer"]:
            return {"changes": msgspec.to_builtins(transferred(load, path))}
        clients = None if load.is_application else load.clients
        run = folder / "clone.db"
        clone = stack.enter_context(sides.clone_side(path, clients, _FINDINGS_S, run))
        with clone.loaded():
            time.sleep(loaded_s)
        with neighbours() as others:
            row = _compared(load, (source, clone), read_capture(path), before, times)
        row["failures"] = clone.failures()
    return row | {"other_programs_cores": round(others.cores, 2)}


@contextmanager
def _source(load: Load, folder: Path) -> Iterator[Side]:
    if load.is_application:
        with application_side(folder) as application:
            yield application
        return
    run = folder / "source.db"
    with sides.side_of(load.fields, {"count": load.clients}, _FINDINGS_S, run) as side:
        yield side


def _grow(source: Side, times: int) -> None:
    """Load a source so many times; its plans follow its rows, as with autovacuum."""
    for _ in range(times):
        with source.loaded():
            time.sleep(GROWTH_S)
        with measuring.connected(source.conninfo) as connection:
            connection.execute("vacuum analyze")


def _captured(
    source: Side, path: Path, seconds: float, reads: bool
) -> tuple[float, dict[str, Executed]]:
    """Capture the load of a source; return for how long it was loaded from then on, and its
    statements."""
    password = secrets.token_hex(8)
    roles = "pg_monitor, pg_read_all_data" if reads else "pg_monitor"
    with measuring.connected(source.conninfo) as connection:
        connection.execute("create extension if not exists pg_stat_statements")
        connection.execute(
            f"create role {sides.WATCHER} login password '{password}' in role {roles}".encode()
        )
        measuring.forget_statements(connection)
        with source.loaded():
            time.sleep(_WARM_S)
            began_s = time.monotonic()
            sides.capture(source, path, seconds, password)
        return time.monotonic() - began_s, measuring.executed(connection)


def _compared(
    load: Load,
    both: tuple[Side, Side],
    capture: Capture,
    before: dict[str, Executed],
    times: Times,
) -> Fields:
    """Measure both sides in turn, and return what differs; ``before`` are the statements of the
    source while it was captured."""
    with ExitStack() as stack:
        ends = [stack.enter_context(measuring.connected(side.conninfo)) for side in both]
        for end in ends:
            end.execute("vacuum analyze")
            end.execute("checkpoint")
            measuring.forget_statements(end)
        shapes = _shapes(capture, *ends)
        pairs = [
            (
                _slice(both[0], ends[0], times.slice_s),
                _slice(both[1], ends[1], times.slice_s),
            )
            for _ in range(times.rounds)
        ]
        source, clone = (measuring.executed(end) for end in ends)
    found = [_findings(load, side) for side in both]
    first = [each[0] if each else "nothing-found" for each in found]
    graded = {
        "figures": figures(pairs),
        "rows": rows_alike(source, clone, before),
        "plans": plans_alike(source, shapes, before),
    }
    return msgspec.to_builtins(graded) | {
        "finding": {
            "source": first[0],
            "clone": first[1],
            "all": found,
            "alike": first[0] == first[1],
        },
        "statements": _coverage(source, clone, capture),
        "capture": msgspec.to_builtins(capture.source),
        "gaps": list(capture.gaps),
    }


def _findings(load: Load, side: Side) -> list[str]:
    """Ask ``pgdyno run``; where an application makes the load, ``pgdyno check`` on both sides."""
    return sides.check(side, _FINDINGS_S) if load.is_application else side.findings(_FINDINGS_S)


def _slice(side: Side, connection: psycopg.Connection[Any], seconds: float) -> Slice:
    """Measure a side under load for so long."""
    if side.keeps_sessions:
        with side.loaded():
            time.sleep(_RISEN_S)
            before = measuring.counts(connection, side.postmaster)
            time.sleep(seconds)
            after = measuring.counts(connection, side.postmaster)
        return measuring.between(before, after, after.at_s - before.at_s)
    before, began_s = measuring.counts(connection, side.postmaster), time.monotonic()
    with side.loaded():
        time.sleep(seconds)
    ended_s = time.monotonic()
    measuring.settled()
    return measuring.between(
        before, measuring.counts(connection, side.postmaster), ended_s - began_s
    )


def _shapes(
    capture: Capture, source: psycopg.Connection[Any], clone: psycopg.Connection[Any]
) -> dict[str, tuple[str, str]]:
    """Return the shapes of the plans of the captured statements on both sides."""
    ends = [(end, names_of(end)) for end in (source, clone)]
    found = {}
    for each in capture.statements:
        shapes = []
        for end, names in ends:
            try:
                shapes.append(shape_of_plan(end, each.text, names))
            except psycopg.Error as problem:
                shapes.append(f"refused by the {'source' if not shapes else 'clone'}: {problem}")
        found[shape_of(each.text)] = (shapes[0], shapes[1])
    return found


def _coverage(source: dict[str, Executed], clone: dict[str, Executed], capture: Capture) -> Fields:
    captured = {shape_of(each.text) for each in capture.statements}
    calls = sum(each.calls for each in source.values()) or 1.0
    return {
        "source": len(source),
        "captured": len(captured & source.keys()),
        "executed": len(clone.keys() & source.keys()),
        "calls_captured": sum(source[each].calls for each in captured & source.keys()) / calls,
        "left_out": [each.text for shape, each in source.items() if shape not in captured],
    }


def main() -> int:
    """Carry out the load on standard input; print its row."""
    asked = json.load(sys.stdin)
    (load,) = (each for each in loads() if each.name == asked["load"])
    with tempfile.TemporaryDirectory(prefix="pgdyno-exam-") as name:
        folder = Path(asked["keep"] or name)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            row = carried_out(load, asked, folder)
        except NotInstalled as problem:
            row = {"missing": str(problem)}
        except sides.Refused as problem:
            row = {"error": str(problem)}
        except PgdynoError as problem:
            row = {"error": f"{problem.code}: {problem.message}"}
    print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
