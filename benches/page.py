"""``docs/benchmarks.md`` from the results; nothing on it is written by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benches.asked import Asked, asked_of_matrix, asked_of_parts
from benches.compare import Metric, best, cases_of, ratio, typical
from benches.matrix import Matrix, is_asked
from benches.results import matrix_from, read_results
from benches.sample import Case
from pgdyno.stats import Effect

_INTRO = """\
# Benchmarks

pgdyno's load engine beside pgbench, sysbench and a bare loop that does nothing but send and
receive. Made by `make bench`; all contenders of a case ran in turn, in random order, round after
round in one run. Ratios are paired by round, with 95 % intervals. Absolute speeds say more about
the machine than about the programs.
"""

_LATE = ("us_p50", "us_p99", "us_max")
_HOW = """\
## How it is measured

- CPU is user and system time of the client's process, per transaction. The first transaction of
  each client is start-up for everyone: it prepares statements and warms the server.
- The bare loop and pgdyno read their own CPU time when the measured stretch begins and ends.
  pgdyno's is that of the whole process: engine, coordinator, the collecting of full histograms,
  the writing of the run file.
- pgbench and sysbench do not tell theirs, so a whole run is measured, and a run of one transaction
  per client, the median of three, is taken away: its CPU, its transactions and its time.
- "Best -j" is the best of 1, the number of cores, and clients (64 at most), for each figure on its
  own.
- Slices with 512 clients and more are four times as long as the others. With them, where no figure
  is asked, only pgbench at -j 1 and cores takes part.
- Met means that the whole interval lies on the right side; unclear, that the bound lies within it.
"""


def page(results_path: Path) -> str:
    """The page's text."""
    results = read_results(results_path)
    measured = results["parts"]
    matrix = matrix_from(_rows(measured, "matrix"))
    sections = [
        _INTRO,
        _machine(results["machine"]),
        _commands(measured),
        _asked_table([*asked_of_matrix(matrix), *asked_of_parts(measured)]),
        _floor(matrix),
        *_matrix_tables(matrix),
        _open_loops(_rows(measured, "openloop")),
        _acks(_rows(measured, "acks")),
        _recording(_rows(measured, "recording")),
        _connections(_rows(measured, "memory"), measured.get("storm", {})),
        _missing(measured),
        _HOW,
    ]
    return "\n".join(section for section in sections if section)


def _rows(measured: Mapping[str, Any], part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = measured.get(part, {}).get("rows", [])
    return rows


def _machine(facts: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{name} = {value}" for name, value in facts["settings"].items())
    return (
        f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB,"
        f" Linux {facts['kernel']}; PostgreSQL and pgbench {facts['postgresql']};"
        f" {facts['sysbench'] or 'no sysbench'}; pgdyno {facts['pgdyno']}."
        f" Server: {settings}.\n"
    )


def _commands(measured: Mapping[str, Any]) -> str:
    """When each part was measured, and how to do it again."""
    by_run: dict[str, list[str]] = {}
    for name, part in measured.items():
        by_run.setdefault(f"    {part['command']}  # {part['date']}", []).append(name)
    return "\n".join(f"{line}: {', '.join(names)}" for line, names in by_run.items()) + "\n"


def _asked_table(figures: Sequence[Asked]) -> str:
    if not figures:
        return ""
    rows = [
        (
            one.what,
            f"{'≤' if one.at_most else '≥'} {one.bound:g}",
            _number(one.measured),
            f"{_number(one.lo)} to {_number(one.hi)}" if one.pairs else "",
            str(one.pairs or ""),
            one.met,
        )
        for one in figures
    ]
    head = ("figure", "asked", "measured", "95 % interval", "pairs", "met")
    return "## Asked and measured\n\n" + _table(head, rows)


def _floor(matrix: Matrix) -> str:
    """What the bare loop takes of pgbench's CPU: less is not to be had by sending and receiving."""
    found = []
    for case in (case for case in cases_of(matrix) if is_asked(case)):
        bare, pgbench = (best(matrix, case, family, "cpu") for family in ("bare", "pgbench"))
        if bare is None or pgbench is None:
            continue
        effect = ratio(matrix, case, "cpu", pgbench, over=bare).effect
        if effect is not None:
            interval = f"[{_number(effect.lo)}, {_number(effect.hi)}]"
            found.append(f"c={case.clients} {_number(effect.ratio)} {interval}")
    if not found:
        return ""
    return (
        "The bare loop's own CPU per transaction over pgbench's at its best -j, as the floor:"
        f" {', '.join(found)}. Nearly all of it is the kernel's: waking the server's process, and"
        " taking its answer.\n"
    )


def _matrix_tables(matrix: Matrix) -> Iterator[str]:
    groups = dict.fromkeys((case.script, case.transport) for case in cases_of(matrix))
    for script, transport in groups:
        cases = [c for c in cases_of(matrix) if (c.script, c.transport) == (script, transport)]
        socket = "Unix socket" if transport == "unix" else "TCP, loopback"
        yield f"## {script}, {socket}\n"
        yield "CPU of the client, µs per transaction:\n"
        yield _figures(matrix, cases, "cpu", lambda value: f"{value:.2f}")
        yield "Transactions per second:\n"
        yield _figures(matrix, cases, "throughput", lambda value: f"{value:,.0f}")


def _figures(
    matrix: Matrix, cases: Sequence[Case], metric: Metric, show: Callable[[float], str]
) -> str:
    names = dict.fromkeys(row.contender for row in matrix.rows if row.case in cases)
    rows = []
    for name in sorted(names):
        values = [typical(matrix, case, name, metric) for case in cases]
        rows.append((name, *("" if value is None else show(value) for value in values)))
    for label, family in (
        ("pgdyno / pgbench at its best -j", "pgbench"),
        ("pgdyno / sysbench", "sysbench"),
        ("pgdyno / bare loop", "bare"),
    ):
        cells = [_ratio_cell(matrix, case, metric, family) for case in cases]
        if any(cells):
            rows.append((f"**{label}**", *cells))
    return _table(("", *(f"c={case.clients}" for case in cases)), rows)


def _ratio_cell(matrix: Matrix, case: Case, metric: Metric, family: str) -> str:
    peer = best(matrix, case, family, metric)
    effect = ratio(matrix, case, metric, peer).effect if peer else None
    return f"{_effect(effect)}" if effect else ""


def _effect(effect: Effect) -> str:
    return f"{_number(effect.ratio)} [{_number(effect.lo)}, {_number(effect.hi)}]"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _open_loops(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line per case and contender: the medians over its rounds."""
    if not rows:
        return ""
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["script"], row["clients"], row["contender"]), []).append(row)
    lines = []
    for (script, clients, contender), members in sorted(groups.items()):
        keys = ("rate", "done_per_s", *_LATE)
        medians = [statistics.median(one[key] for one in members) for key in keys]
        lines.append((f"{script}, c={clients}", contender, *(f"{it:,.0f}" for it in medians)))
        if all(f"send_{key}" in one for one in members for key in _LATE):
            own = [statistics.median(one[f"send_{key}"] for one in members) for key in _LATE]
            lines.append(("", "of it, with a client free", "", "", *(f"{it:,.0f}" for it in own)))
    head = ("", "", "asked /s", "done /s", "late p50 µs", "p99 µs", "max µs")
    return "## Open loop at half of the capacity\n\n" + _table(head, lines)


def _acks(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    nouns = {"throughput_tps": "throughput", "cpu_us": "CPU per transaction"}
    lines = [
        (f"{row['script']}, c={row['clients']}", nouns[row["metric"]],
         _effect(Effect(**row["effect"])))
        for row in rows
    ]  # fmt: skip
    return "## Ack ledger, with / without\n\n" + _table(("", "", "ratio"), lines)


def _recording(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [
        (f"{row['script']}, c={row['clients']}", row["over"], _effect(Effect(**row["effect"])))
        for row in rows
    ]
    return (
        "## Recording disk, throughput\n\n"
        "PostgreSQL with synchronous_commit on, on ext4 in a sparse file. A flush of the plain"
        " loop mount is one of the real disk. The recording disk keeps a log instead, and does not"
        " pass it on; so no speed measured on it says anything of a real disk.\n\n"
        + _table(("", "recorded over", "ratio"), lines)
    )


def _connections(rows: Sequence[Mapping[str, Any]], storm: Mapping[str, Any]) -> str:
    lines = [
        f"- {row['clients']:,} connections, {row['use']}: {row['bytes_per_connection']:,} bytes"
        f" each; connected at {row['connects_per_s']:,} per second (the least of a server)"
        for row in rows
    ]
    if at_once := storm.get("at_once"):
        lines.append(
            f"- {at_once['clients']:,} at once to PostgreSQL: pgdyno {at_once['pgdyno_s']:.2f} s,"
            f" pgbench -j 1 {at_once['pgbench_s']:.2f} s"
        )
    if again := storm.get("reconnecting"):
        lines.append(
            f"- a connection per transaction, c={again['clients']}:"
            f" pgdyno {again['pgdyno_per_s']:,.0f} per second at {again['pgdyno_cpu_us']:.0f} µs of"
            f" CPU each, pgbench -C -j 1 {again['pgbench_per_s']:,.0f}"
            f" at {again['pgbench_cpu_us']:.0f} µs"
        )
    return "## Connections\n\n" + "\n".join(lines) + "\n" if lines else ""


def _missing(measured: Mapping[str, Any]) -> str:
    reasons = dict(measured.get("matrix", {}).get("missing", {}))
    reasons |= {
        name: part["not_measured"] for name, part in measured.items() if "not_measured" in part
    }
    if not reasons:
        return ""
    lines = [f"- {name}: {reason}" for name, reason in reasons.items()]
    return "## Not measured\n\n" + "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
