"""Storage of tables: room for updates that touch no index, and compression."""

from __future__ import annotations

from pgdyno.facts.sight import NOT_PREDICTED, Sight, alter_system, measured, pages_bytes
from pgdyno.facts.situation import Situation
from pgdyno.facts.tables import COST_SHARE, hot_evidence, missed_updates, missed_words
from pgdyno.json_types import Row
from pgdyno.numbers import figure, listed, percent, size
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.rules._cpu_uses import cpu_parts, cpu_uses, ratio_without, response_share
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import stored


@rule(
    "indexed-updates",
    false_positives=(
        "statements that set an indexed column to the value that it has, which are HOT; columns"
        " set by triggers or by functions, whose statements are not seen"
    ),
)
def indexed_updates(s: Situation) -> Found | Cleared:
    """Updates of an indexed column: none of them is HOT, whatever space the pages have.

    Trigger: at most ``HOT_SHARE`` of a table's updates are HOT because of an indexed column (see
    ``facts.tables``), and their entries into indexes are estimated to take at least
    ``COST_SHARE`` of the response time.

    Threshold: calibrated by injection, one to four indexes on the updated column; see
    ``_cpu_uses``.
    """
    missed = [each for each in missed_updates(s) if each.finding == "indexed-updates"]
    share = response_share(s, "indexed-updates")
    evidence = hot_evidence(s, missed, share)
    if not missed or share < COST_SHARE:
        return Cleared(f"updates of indexed columns take {percent(share)} of the time", evidence)
    worst = missed[0]
    which = f"column {worst.column} is indexed" if worst.column else "they change an indexed column"
    return Found(
        sentence=missed_words(worst, f"as {which}"),
        parts=cpu_parts(s),
        share=share * s.budget.begun,
        gain=ratio_without(s, cpu_uses(s)["indexed-updates"]),
        confidence=0.8 if worst.column else 0.6,
        evidence=evidence,
        advice=(
            "drop the index on the updated column if queries can do without it, or move the column"
            " to a table of its own; free space in the pages (fillfactor) does not help"
        ),
    )


UPDATES_MIN = 10_000
FULL_SHARE = 0.5
HOT_SHARE_MAX = 0.3
FILLFACTOR_MIN = 70
SHOWN = 5


@rule(
    "no-room-for-hot",
    looks=("table",),
    covered_by=("full-pages", "indexed-updates"),
    false_positives=(
        "a load that updated the whole table several times and is over; before version 16,"
        " updates of indexed columns"
    ),
)
def no_room_for_hot(sight: Sight) -> Found | Cleared:
    """Updates leave their page since it is full: each makes an entry in every index.

    Trigger: a table with fillfactor 100 and at least ``UPDATES_MIN`` updates since the statistics
    began, and more than it has rows, of which at least ``FULL_SHARE`` went to another page. Before
    version 16, which does not count those: of which at most ``HOT_SHARE_MAX`` were HOT, with less
    confidence, since updates of indexed columns are never HOT.

    Thresholds: pg_gather computes a fillfactor of 100 - 20 U / (U + I) + 20 H / (U + I) for U
    updates, of which H are HOT, and I inserts; it is what the command proposes. Half is ours: then
    the index entries of updates that could have been HOT are as many as those that had to be. Fewer
    updates than rows may be one statement over the whole table, which leaves no room anywhere.
    """
    tables = [row for row in sight.rows("table") if not row["system"] and _is_full(row)]
    if not tables:
        return Cleared("no table has many updates and full pages")
    tables.sort(key=lambda row: -row["n_upd"])
    worst = tables[0]
    known = worst["n_newpage"] is not None
    names = listed([row["relation"] for row in tables])
    why = (
        f"{percent(worst['n_newpage'] / worst['n_upd'])} of {figure(worst['n_upd'])} updates"
        " went to"
        " another page"
        if known
        else f"{percent(_hot(worst))} of {figure(worst['n_upd'])} updates were HOT"
    )
    return Found(
        sentence=f"pages of {names} have no room for updates (fillfactor 100): {why}",
        severity="costs",
        confidence=0.7 if known else 0.4,
        evidence=[item for row in tables[:SHOWN] for item in _evidence(row)],
        advice="new rows get the room at once, those that are there when the table is rewritten",
        commands=[
            f"ALTER TABLE {row['relation']} SET (fillfactor = {_fillfactor(row)})"
            for row in tables[:SHOWN]
        ],
        proposals=[_proposal(row) for row in tables[:SHOWN]],
    )


def _is_full(row: Row) -> bool:
    if row["n_upd"] < UPDATES_MIN or row["n_upd"] <= max(row["rows"], row["n_live"]):
        return False
    if any(entry.startswith("fillfactor=") for entry in (row["options"] or "").split()):
        return False
    if row["n_newpage"] is None:
        return _hot(row) <= HOT_SHARE_MAX
    return bool(row["n_newpage"] >= FULL_SHARE * row["n_upd"])


def _hot(row: Row) -> float:
    return float(row["n_hot"] / row["n_upd"])


def _fillfactor(row: Row) -> int:
    written = row["n_upd"] + row["n_ins"]
    wanted: float = 100 - 20 * row["n_upd"] / written + 20 * row["n_hot"] / written
    return max(FILLFACTOR_MIN, round(wanted))


def _proposal(row: Row) -> Proposal:
    table = stored(row["relation"])
    change = Change(table_options={table: {"fillfactor": str(_fillfactor(row))}})
    why = "room on the page for the next version of a row"
    return Proposal(remedy_id="fillfactor", change=change, predicted_ratio=NOT_PREDICTED, why=why)


def _evidence(row: Row) -> list[Evidence]:
    name = row["relation"]
    shown = [
        measured(f"updates of {name}", row["n_upd"], "count", f"at least {UPDATES_MIN:,}"),
        measured(f"HOT updates of {name}", _hot(row), "share",
                 None if row["n_newpage"] is not None else f"at most {percent(HOT_SHARE_MAX)}"),
    ]  # fmt: skip
    if row["n_newpage"] is not None:
        share = row["n_newpage"] / row["n_upd"]
        bar = f"at least {percent(FULL_SHARE)}"
        shown.append(measured(f"updates of {name} to another page", share, "share", bar))
    return shown


TOAST_BYTES_MIN = 1 << 30
_NAME = "default_toast_compression"


@rule(
    "toast-compression",
    looks=("server", "setting", "toast"),
    false_positives="values that are compressed already, or hardly ever written",
)
def toast_compression(sight: Sight) -> Found | Cleared:
    """Wide values are compressed with pglz, where lz4 is built in.

    Trigger: default_toast_compression is pglz, the server was built with lz4, and tables with
    columns compressed by it hold at least ``TOAST_BYTES_MIN`` out of line. Threshold: pg_gather
    recommends lz4 wherever it is built in; below this size compression is no cost that shows, by
    our reasoning: pglz compresses some 20 MB/s or more on one core. It is minor: lz4 takes less CPU
    time and somewhat more space. Values that are there stay as they are.
    """
    default = sight.setting(_NAME)
    choices = next(row["enumvals"] for row in sight.rows("setting") if row["name"] == _NAME) or []
    tables = [row for row in sight.rows("toast") if row["columns"]]
    stored = sum(pages_bytes(sight, row["toast_pages"]) for row in tables)
    evidence = [
        measured(_NAME, default.value, "", "pglz, with lz4 built in"),
        measured("lz4 built in", "yes" if "lz4" in choices else "no", ""),
        measured("values out of line", stored, "bytes", f"at least {size(TOAST_BYTES_MIN)}"),
    ]
    if default.value != "pglz" or "lz4" not in choices or stored < TOAST_BYTES_MIN:
        return Cleared("compression of wide values costs little, or is lz4", evidence)
    return Found(
        sentence=(
            f"{size(stored)} of wide values are stored out of line, and new ones are compressed"
            " with"
            f" pglz instead of lz4: {listed([row['relation'] for row in tables])}"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=alter_system({"default_toast_compression": "lz4"}),
    )
