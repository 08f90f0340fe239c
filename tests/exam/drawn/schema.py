"""The tables of a draw: names and sizes by chance, and the SQL that makes them.

Four tables: parents, their children (which may be partitioned), a log of the children, and a small
one. Parts that only some statements need are made for them: ``dims``, nine small tables to join,
``counter``, a table to insert into or update, ``function``, a function in PL/pgSQL, ``lower name``
and ``feed``, indexes on an expression and for an order, ``default``, a value of the log, and
``documents``, a table of JSON, and ``tasks``, one of which few rows are open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from exam.drawn.model import Chance, Names

DIMS = 9
_PARENTS = ("customer", "device", "account", "tenant", "vessel")
_CHILDREN = ("orders", "reading", "payment", "message", "voyage")
_LOGS = ("event", "journal", "audit")
_SMALLS = ("country", "tariff", "branch")
_KINDS = ("category", "topic", "channel")
_AMOUNTS = ("total", "cents", "weight")

_TABLES = """
create table {parent} (
    id bigint primary key, region int not null, name text not null,
    balance bigint not null default 0);
insert into {parent}
    select g, g % 50, 'number ' || g, 0 from generate_series(1, {parents}) as g;
create table {child} (
    id bigint not null, {parent_id} bigint not null, {kind} int not null, state int not null,
    at timestamptz not null, {amount} int not null, note text not null, primary key (id)
){partitioning};
{made_partitions}
create sequence {child}_ids start 10000000;
insert into {child}
    select g, 1 + (g * 7919) % {parents}, (g * 31) % {kinds},
           case when g % 20 = 0 then 1 + (g / 20) % 100 else 0 end,
           timestamptz '2026-01-01' + g * interval '1 second', (g * 17) % 1000,
           repeat(chr((97 + g % 26)::int), {width})
      from generate_series(1, {children}) as g;
create index {child}_{parent_id} on {child} ({parent_id}, at);
create index {child}_{kind} on {child} ({kind});
create index {child}_state on {child} (state);
create table {log} (
    id bigint generated always as identity primary key, {child_id} bigint not null,
    what text not null, at timestamptz not null default now());
insert into {log} ({child_id}, what)
    select 1 + (g * 13) % {children}, 'seen' from generate_series(1, {logs}) as g;
create index {log}_{child_id} on {log} ({child_id});
create table {small} (id int primary key, size int not null, label text not null);
insert into {small} select g, g % 100, 'label ' || g from generate_series(1, {smalls}) as g;
alter table {child} add foreign key ({parent_id}) references {parent} (id);
alter table {log} add foreign key ({child_id}) references {child} (id);
"""
_DIM = """
create table dim{n} (id int primary key, next int not null, label text not null);
insert into dim{n} select g, 1 + (g * 7) % 500, 'label ' || g from generate_series(1, 500) as g;
"""
_COUNTER = """
create table counter (id bigint primary key, n bigint not null) with (fillfactor = 60);
insert into counter select g, 0 from generate_series(1, {parents}) as g where g % 2 = 0;
"""
_FUNCTION = """
create function weighed(n int) returns int language plpgsql immutable as
$$ begin return n * 2; end $$;
"""
_PARTS = {
    "counter": _COUNTER,
    "function": _FUNCTION,
    "lower name": "create index {parent}_name on {parent} (lower(name))",
    "default": "alter table {log} alter column what set default 'seen'",
    "feed": "create index {log}_at on {log} (at)",
    "documents": """
create table document (id bigint primary key, body jsonb not null);
insert into document select g, jsonb_build_object('k', g % {kinds}, 'note', 'number ' || g)
  from generate_series(1, {children} / 2) as g;
create index document_body on document using gin (body);
""",
    "tasks": """
create table task (id bigint primary key, done_at timestamptz, note text not null);
insert into task select g, case when g % 1000 <> 0 then now() end, 'number ' || g
  from generate_series(1, {children}) as g;
create index task_open on task (id) where done_at is null;
""",
}


def drawn_names(chance: Chance, partitions: tuple[int, int] | None) -> Names:
    """Draw names and sizes; ``partitions``: fewest and most partitions, if a cause needs them."""
    children = chance.choice((20_000, 50_000, 90_000))
    count = chance.choice((0, 0, 0, 0, 8, 24))
    if partitions is not None:
        count = chance.randint(*partitions)
    return Names(
        parent=chance.choice(_PARENTS),
        child=chance.choice(_CHILDREN),
        log=chance.choice(_LOGS),
        small=chance.choice(_SMALLS),
        kind=chance.choice(_KINDS),
        amount=chance.choice(_AMOUNTS),
        parents=chance.choice((1000, 5000, 20_000)),
        children=children,
        logs=chance.choice((children // 2, children)),
        smalls=chance.choice((100, 200, 300)),
        kinds=chance.choice((200, 1000, 5000)),
        width=chance.choice((20, 60, 120)),
        partitions=count,
    )


def setup_of(names: Names, parts: Collection[str]) -> Iterator[str]:
    """Yield the statements that make the tables, each to be executed on its own."""
    partitioning = " partition by range (id)" if names.partitions else ""
    made = "\n".join(_partitions(names))
    yield names.fill(_TABLES, partitioning=partitioning, made_partitions=made)
    if "dims" in parts:
        yield "".join(_DIM.format(n=n) for n in range(DIMS))
    for name, text in _PARTS.items():
        if name in parts:
            yield names.fill(text)
    yield "vacuum analyze"
    yield "checkpoint"


def _partitions(names: Names) -> Iterator[str]:
    if not names.partitions:
        return
    step = names.children // names.partitions + 1
    for n in range(names.partitions):
        low, high = n * step, (n + 1) * step
        yield (
            f"create table {names.child}_{n} partition of {names.child}"
            f" for values from ({low}) to ({high});"
        )
    yield f"create table {names.child}_rest partition of {names.child} default;"
