"""Indexes that are missing, in the way, or of no use."""

from __future__ import annotations

from exam.drawn.model import Entry, Right

_MISSING = ("missing-index",)


def _dropped(name: str, column: str, columns: str, loads: tuple[str, ...]) -> Entry:
    return Entry(
        name,
        "missing index",
        Right(findings=_MISSING, index=("{child}", column)),
        plant=("drop index {child}_" + column,),
        undo=("create index {child}_" + column + " on {child} (" + columns + ")",),
        loads=loads,
    )


def _of_another_kind(
    name: str, table: str, wanted: str, index: str, behind: str, load: str
) -> Entry:
    """An index that is missing and that is none of columns alone: ``index`` is the one to drop."""
    return Entry(
        name,
        "missing index",
        Right(findings=_MISSING, index=(table, wanted)),
        plant=(f"drop index {index}",),
        undo=(f"create index {index} on {table} {behind}", f"analyze {table}"),
        loads=(load,),
    )


def _useless(name: str, made: str, *more: str) -> Entry:
    """An index on the column that its statements compare, which they cannot use."""
    return Entry(
        name,
        "unusable index",
        Right(findings=_MISSING, index=("{child}", "{kind}")),
        plant=("drop index {child}_{kind}", made, *more),
        undo=("drop index other", "create index {child}_{kind} on {child} ({kind})"),
        loads=("by-kind", "join-by-kind"),
        partitions=(0, 0),
    )


ENTRIES = (
    _dropped(
        "no-index-on-parent", "{parent_id}", "{parent_id}, at", ("by-parent", "join", "latest")
    ),
    _dropped("no-index-on-kind", "{kind}", "{kind}", ("by-kind", "join-by-kind")),
    _dropped("no-index-on-alternative", "{kind}", "{kind}", ("either",)),
    _dropped("no-index-on-state", "state", "state", ("skewed",)),
    _of_another_kind(
        "no-index-on-expression",
        "{parent}",
        "using btree ((lower(name)))",
        "{parent}_name",
        "(lower(name))",
        "by-name",
    ),
    _of_another_kind("no-index-for-order", "{log}", "at", "{log}_at", "(at)", "feed"),
    _of_another_kind(
        "no-index-of-content",
        "document",
        "using gin (body)",
        "document_body",
        "using gin (body)",
        "by-content",
    ),
    _of_another_kind(
        "no-index-on-null",
        "task",
        "done_at",
        "task_open",
        "(id) where done_at is null",
        "open-tasks",
    ),
    Entry(
        "no-index-on-reference",
        "foreign key without index",
        Right(findings=_MISSING, index=("{log}", "{child_id}")),
        plant=("drop index {log}_{child_id}",),
        undo=("create index {log}_{child_id} on {log} ({child_id})",),
        loads=("delete-child",),
    ),
    Entry(
        "no-index-on-deferred-reference",
        "foreign key without index",
        Right(findings=_MISSING, index=("{log}", "{child_id}")),
        plant=(
            "drop index {log}_{child_id}",
            "alter table {log} alter constraint {log}_{child_id}_fkey deferrable initially"
            " deferred",
        ),
        undo=(
            "create index {log}_{child_id} on {log} ({child_id})",
            "alter table {log} alter constraint {log}_{child_id}_fkey not deferrable",
        ),
        loads=("delete-child",),
    ),
    _useless("block-ranges", "create index other on {child} using brin ({kind})"),
    _useless("other-column-first", "create index other on {child} (at, {kind})"),
    _useless("other-rows", "create index other on {child} ({kind}) where {amount} < 0"),
    _useless("of-expression", "create index other on {child} (({kind} + 0))"),
    _useless(
        "invalid",
        "create index other on {child} ({kind})",
        "update pg_catalog.pg_index set indisvalid = false where indexrelid = 'other'::regclass",
    ),
    Entry(
        "most-rows-match",
        "bait: useless index",
        Right(findings=_MISSING, index=("{child}", "{amount}")),
        plant=("drop index if exists bait",),
        undo=("create index bait on {child} ({amount})", "vacuum analyze {child}"),
        loads=("most-rows",),
        bait=True,
    ),
    Entry(
        "small-table",
        "bait: useless index",
        Right(findings=_MISSING, index=("{small}", "size")),
        plant=("drop index if exists bait",),
        undo=("create index bait on {small} (size)", "vacuum analyze {small}"),
        loads=("small-scan",),
        bait=True,
    ),
    Entry(
        "many-indexes",
        "indexes in the way",
        Right(
            findings=("unused-indexes", "indexed-updates"),
            commands=("surplus_",),
            objects=("surplus_1", "public.surplus_1"),
        ),
        plant=(
            "create index surplus_1 on {log} (at, what)",
            "create index surplus_2 on {log} (what, id)",
            "create index surplus_3 on {log} (lower(what), at)",
            "create index surplus_4 on {log} (md5(what), id)",
            "create index surplus_5 on {log} ({child_id}, at)",
            "create index surplus_6 on {log} (at, id)",
        ),
        undo=("drop index surplus_1, surplus_2, surplus_3, surplus_4, surplus_5, surplus_6",),
        loads=("insert-batch", "insert-log"),
    ),
    Entry(
        "indexed-column",
        "indexes in the way",
        Right(
            findings=("indexed-updates", "unused-indexes"),
            commands=("in_the_way",),
            objects=("in_the_way",),
        ),
        plant=("create index in_the_way on {parent} (balance, name)",),
        undo=("drop index in_the_way",),
        loads=("update-parent",),
    ),
)
