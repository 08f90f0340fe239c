"""Updates leave their page since it is full: each makes an entry in every index.

Trigger: a table with fillfactor 100 and at least ``UPDATES_MIN`` updates since the statistics
began, and more than it has rows, of which at least ``FULL_SHARE`` went to another page. Before
version 16, which does not count those: of which at most ``HOT_SHARE`` were HOT, with less
confidence, since updates of indexed columns are never HOT.

Thresholds: pg_gather computes a fillfactor of 100 - 20 U / (U + I) + 20 H / (U + I) for U updates,
of which H are HOT, and I inserts; it is what the command proposes. Half is ours: then the index
entries of updates that could have been HOT are as many as those that had to be. Fewer updates than
rows may be one statement over the whole table, which leaves no room anywhere.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import NOT_PREDICTED, Sight, measured
from pgdyno.numbers import figure, listed, percent
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.shapes import Row
from pgdyno.spec.change import Change
from pgdyno.spec.sql_text import stored

UPDATES_MIN = 10_000
FULL_SHARE = 0.5
HOT_SHARE = 0.3
FILLFACTOR_MIN = 70
SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Examine the updates of each table."""
    tables = [row for row in sight.rows("table") if not row["system"] and _is_full(row)]
    if not tables:
        return Fine("no table has many updates and full pages")
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
    return Fault(
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
        return _hot(row) <= HOT_SHARE
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
                 None if row["n_newpage"] is not None else f"at most {percent(HOT_SHARE)}"),
    ]  # fmt: skip
    if row["n_newpage"] is not None:
        share = row["n_newpage"] / row["n_upd"]
        bar = f"at least {percent(FULL_SHARE)}"
        shown.append(measured(f"updates of {name} to another page", share, "share", bar))
    return shown


RULE = Rule(
    id="no-room-for-hot",
    looks=("table",),
    false_positives=(
        "a load that updated the whole table several times and is over; before version 16, updates"
        " of indexed columns"
    ),
    examine=examine,
    covered_by=("full-pages", "indexed-updates"),
)
