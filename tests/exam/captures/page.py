"""The outcomes in words: lines for a terminal, and the page ``docs/captures.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from exam.captures.model import CLIENTS, POINTS, RATIO, SHARE_MIN, Times
from exam.captures.transfer import BUDGET, OVERLAPS_MIN, Transferred, in_order, in_words
from exam.captures.transfer import lines as transfer_lines

Row = Mapping[str, Any]
PAGE = Path(__file__).parents[3] / "docs" / "captures.md"
_TEXT_MAX = 80
_SIDE_MAX = 52
_ERRORS_MAX, _UNLIKE_MAX = 3, 3
_COLUMNS = ("load", "throughput", "CPU", "WAL", "HOT", "rows of a call", "plans", "first finding")
_HEAD = """\
# Captures, proved

    make exam-captures                              # all loads, fifteen minutes or more
    make exam-captures LOADS='tpcb-like,orders'     # some of them
    make exam-captures SECONDS=8 ROUNDS=8           # longer slices, and more of them
    make exam-captures EXAM='--keep kept --write'   # keeps captures and run files, writes this page
    make exam-captures EXAM=--reads                 # the role that captures may read all data, too
    make exam-captures EXAM=--transfer              # six changes on originals and clones, 20 minutes a load

Each load runs on a server of its own, the source, and is captured there in its middle, by a role that has `pg_monitor`
and nothing else. The clone is made from the file on a second server, and its load runs for as long as the source's has
since it had these rows. Then both are vacuumed and analyzed, have a checkpoint, and take turns: a slice of the source,
a slice of the clone, while the other server rests. The exam measures both in the same way, with all rights, by the
server's own counts (`pg_stat_database`, the WAL position, `pg_stat_user_tables`, `pg_stat_statements`) and the CPU time
of its processes in `/proc`. A transaction is a commit of the server.

Machines are noisy, by a factor of two where others work on them; figures are therefore the medians of the pairs'
ratios, with the lowest and the highest. That of WAL is the ratio of all slices together: images of pages come in bursts
behind a checkpoint, and one side may write most of its in one slice. The load `synapse` is an application that nobody
of pgdyno wrote, a server for chats, installed from the registry of packages when the exam begins (or once, in the
directory `PGDYNO_EXAM_SYNAPSE`), whose clients send requests at a rate; there a transaction is a commit that is not
that of a SET alone. It has jobs every half minute, so that its capture and all slices of a side take a minute each. Of
the others `orders` has documents, arrays, partitions and triggers. The tables of `entity-resolution` and `synapse` are
empty at first, and both run for a while before they are captured.
"""
_TRANSFER = f"""\
## Transfer

Six changes, each measured by `pgdyno compare` for {BUDGET} on the load itself and then on its clone, with {CLIENTS}
clients: throughput with the change divided by throughput without it, and the 95 % interval. Bold is a clone whose
interval has no ratio in common with the original's; asked is that of six changes at least {OVERLAPS_MIN} have, and that
changes whose gains differ on the original are in the same order on the clone.
"""


def _is_alike(row: Row) -> bool:
    parts = [*row["figures"], row["rows"], row["plans"], row["finding"]]
    return all(each["alike"] for each in parts)


def _cells(row: Row) -> Iterator[str]:
    """Yield the cells of a load; what is not alike is marked."""
    yield row["load"]
    if "figures" not in row:
        yield row.get("missing") or row.get("error", "")
        yield from [""] * (len(_COLUMNS) - 2)
        return
    for figure in row["figures"]:
        yield _marked(_figure(figure), alike=figure["alike"])
    for part in (row["rows"], row["plans"]):
        yield _marked(_share(part), alike=part["alike"])
    finding = row["finding"]
    same = finding["source"] if finding["alike"] else f"{finding['source']} / {finding['clone']}"
    yield _marked(same, alike=finding["alike"])


def _share(part: Row) -> str:
    own = "" if part["own_share"] >= SHARE_MIN else f" of {100 * part['own_share']:.1f} %"
    return f"{100 * part['share']:.1f} %{own}"


def _marked(text: str, *, alike: bool) -> str:
    return text if alike else f"**{text}**"


def _figure(figure: Row) -> str:
    middle, low, high = (figure[name] for name in ("difference", "low", "high"))
    if middle is None:
        return "none"
    if figure["unit"] == "share":
        return f"{100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def table(rows: Sequence[Row]) -> list[str]:
    """Return the table of the loads, as Markdown has it."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + "---|" * len(_COLUMNS)]
    return lines + [f"| {' | '.join(_cells(row))} |" for row in rows]


def lines_of(row: Row) -> list[str]:
    """Return the lines of a load, with what is not alike."""
    head = f"{row['load']} ({row['took_s']:.0f} s)"
    if "changes" in row:
        changes = msgspec.convert(row["changes"], list[Transferred])
        return [head, *transfer_lines(changes)]
    if "figures" not in row:
        return [f"{head}: {row.get('missing') or row.get('error')}"]
    return [f"{head}: {'alike' if _is_alike(row) else 'not alike'}", *_details(row)]


def _details(row: Row) -> Iterator[str]:
    for each in row["figures"]:
        if each["difference"] is not None:
            sides = f"{_number(each['source'])} and {_number(each['clone'])} {each['unit']}"
            yield f"  {_sign(each)} {each['name']}: {_figure(each)}, {sides}"
    for part in (row["rows"], row["plans"]):
        yield (
            f"  {_sign(part)} {part['name']}: {part['alike_statements']} of"
            f" {part['statements']} statements, {100 * part['share']:.1f} %, and"
            f" {100 * part['own_share']:.1f} % of the source itself while it was captured"
        )
        for each in part["unlike"]:
            yield f"      {100 * each['part']:.1f} % {_cut(each['text'])}"
            yield f"        {each['source']} / {each['clone']}, captured: {each['before']}"
    found = row["finding"]
    yield f"  {_sign(found)} first finding: {found['source']} / {found['clone']}"
    failures = row["failures"]
    yield f"    the clone's transactions: {failures['done']:,} done, {failures['failed']:,} failed"
    for each in failures["errors"]:
        yield f"      {each['count']:,}: {each['message']} in {_cut(each['statement'])}"
    covered = row["statements"]
    yield (
        f"    statements: {covered['source']} of the source, {covered['captured']} captured"
        f" ({100 * covered['calls_captured']:.1f} % of the calls), {covered['executed']} executed"
    )
    for text in covered["left_out"]:
        yield f"      left out: {_cut(text)}"
    for gap in row["gaps"]:
        yield f"    note: {gap}"
    if row["other_programs_cores"] > 0.1:
        yield f"    other programs used {row['other_programs_cores']:.1f} cores meanwhile"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _sign(part: Row) -> str:
    return "=" if part["alike"] else "≠"


def _cut(text: str, most: int = _TEXT_MAX) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def page(result: Mapping[str, Any]) -> str:
    """Return the page with the outcomes of an exam."""
    machine = result["machine"]
    rows = [row for row in result["loads"] if "times" in row]
    done = [row for row in rows if "figures" in row]
    alike = sum(map(_is_alike, done))
    lines = [
        _HEAD,
        "## Outcome",
        "",
        f"{machine['date']}, {machine['cores']} cores. {alike} of {len(rows)} loads are alike in all"
        " respects.",
        "",
        *_times(rows),
        "",
        *table(rows),
        "",
        "Throughput, CPU and WAL of a transaction are those of the clone divided by the source's;"
        " HOT is the",
        "difference of the shares of updates, in points; of rows and plans the table has the share"
        " of the source's",
        "calls, and of its statements' time, that is alike. Bold is outside of the tolerance.",
        "Where the load of a source itself changes, its share follows: what is alike in the source"
        " while it is",
        "captured and afterwards. No clone can know more.",
        "",
        "| figure | tolerance |",
        "|---|---|",
        f"| throughput, CPU, WAL | ±{100 * RATIO:.0f} % |",
        f"| HOT | ±{100 * POINTS:.0f} points |",
        f"| rows of a call | ±{100 * RATIO:.0f} %, for {100 * SHARE_MIN:.0f} % of the calls |",
        "| plans | kinds of nodes, tables and indexes of the generic plans are the same, for"
        f" {100 * SHARE_MIN:.0f} % of the time |",
        "| first finding | the same, of `pgdyno run`; of `pgdyno check` where an application makes"
        " the load |",
        "",
        *_transfer([row for row in result["loads"] if "changes" in row]),
        "## What is not alike",
        "",
        *_unlike(done),
    ]
    return "\n".join(lines) + "\n"


def _times(rows: Sequence[Row]) -> Iterator[str]:
    """Yield how long the loads were watched: those that have the same in one line."""
    names: dict[str, list[str]] = {}
    for row in rows:
        words = msgspec.convert(row["times"], Times).in_words(row["grown_s"])
        names.setdefault(words, []).append(row["load"])
    for words, those in names.items():
        yield f"- {words}: {', '.join(those)}"


def _transfer(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the section about changes on both sides, if any was measured."""
    if not rows:
        return
    yield _TRANSFER
    yield "| load | change | original | clone |"
    yield "|---|---|---|---|"
    measured = [(row, msgspec.convert(row["changes"], list[Transferred])) for row in rows]
    for row, changes in measured:
        for each in changes:
            clone = _marked(in_words(each.clone), alike=each.overlaps)
            yield f"| {row['load']} | `{each.change}` | {in_words(each.original)} | {clone} |"
    yield ""
    for row, changes in measured:
        overlapping = sum(each.overlaps for each in changes)
        order = "the same order" if in_order(changes) else "another order"
        yield (
            f"- **{row['load']}**: the intervals of {overlapping} of {len(changes)} changes"
            f" overlap, and the gains are in {order}."
        )
    yield ""


def _unlike(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        failures, covered = row["failures"], row["statements"]
        ended = failures["done"] + failures["failed"]
        yield (
            f"- **{row['load']}**: {covered['captured']} of {covered['source']} statements are"
            f" captured ({100 * covered['calls_captured']:.1f} % of the calls);"
        )
        yield f"  {failures['failed']:,} of {ended:,} transactions of the clone fail."
        for each in failures["errors"][:_ERRORS_MAX]:
            yield f"  - {each['count']:,} times {_cut(each['message'])}"
        for part in (row["rows"], row["plans"]):
            for each in [] if part["alike"] else part["unlike"][:_UNLIKE_MAX]:
                source, clone = (_cut(each[side], _SIDE_MAX) for side in ("source", "clone"))
                sides = f"{source} / {clone}" if source else clone
                yield f"  - {part['name']}, {100 * each['part']:.1f} %: `{_cut(each['text'])}`"
                yield f"    ({sides})"
