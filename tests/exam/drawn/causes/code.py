"""Code in the database that takes long for each row: triggers, constraints, functions."""

from __future__ import annotations

from exam.drawn.model import Entry, Right

_KIND = "dear code"
_WORK = """
create function {log}_checked() returns trigger language plpgsql as $$
declare n int := 0;
begin {work} return new; end $$"""
_LOOP = "for i in 1..3000 loop n := n + i % 7; end loop;"
_IS_FINE = """
create function is_fine(what text) returns bool language plpgsql as $$
declare n int := 0;
begin for i in 1..1500 loop n := n + i % 7; end loop; return n >= 0; end $$"""
_SCAN = "select count(*) into n from {log} where what = 'new';"


def _trigger(
    name: str, work: str, table: str, when: str, loads: tuple[str, ...], *, deferred: bool = False
) -> Entry:
    kind = "constraint trigger" if deferred else "trigger"
    timing = " deferrable initially deferred" if deferred else ""
    return Entry(
        name,
        _KIND,
        # What the trigger reads may also be found by an index.
        Right(objects=("checks_each", "{log}_checked", "public.{log}_checked", "{log} (what")),
        plant=(
            _WORK.replace("{work}", work),
            f"create {kind} checks_each {when} on {table}{timing} for each row"
            " execute function {log}_checked()",
        ),
        undo=(f"drop trigger checks_each on {table}", "drop function {log}_checked()"),
        loads=loads,
    )


ENTRIES = (
    _trigger("trigger-computes", _LOOP, "{log}", "before insert", ("insert-log", "insert-batch")),
    _trigger("trigger-scans", _SCAN, "{log}", "after insert", ("insert-log",)),
    _trigger(
        "deferred-trigger",
        _LOOP,
        "{log}",
        "after insert",
        ("insert-log", "insert-batch"),
        deferred=True,
    ),
    _trigger("update-trigger", _LOOP, "{parent}", "before update", ("update-parent",)),
    Entry(
        "check-computes",
        _KIND,
        Right(objects=("checked_what", "is_fine", "public.is_fine")),
        plant=(
            _IS_FINE,
            "alter table {log} add constraint checked_what check (is_fine(what)) not valid",
        ),
        undo=("alter table {log} drop constraint checked_what", "drop function is_fine(text)"),
        loads=("insert-log", "insert-batch"),
    ),
    Entry(
        "default-computes",
        _KIND,
        Right(objects=("made_up", "public.made_up")),
        plant=(
            "create function made_up() returns text language plpgsql as $$ declare n int := 0;"
            " begin for i in 1..1500 loop n := n + i % 7; end loop; return n; end $$",
            "alter table {log} alter column what set default made_up()",
        ),
        undo=(
            "alter table {log} alter column what set default 'seen'",
            "drop function made_up()",
        ),
        loads=("insert-default",),
    ),
    Entry(
        "domain-computes",
        _KIND,
        Right(objects=("is_fine", "public.is_fine")),
        plant=(
            _IS_FINE,
            "create domain fine as text",
            "alter table {log} alter column what type fine",
            "alter domain fine add constraint checked check (is_fine(value)) not valid",
        ),
        undo=(
            "alter table {log} alter column what type text",
            "drop domain fine",
            "drop function is_fine(text)",
            "analyze {log}",
        ),
        loads=("insert-log", "insert-batch"),
    ),
    Entry(
        "volatile-function",
        _KIND,
        Right(
            findings=("unusable-index", "missing-index"),
            objects=("weighed", "public.weighed"),
            commands=("immutable", "stable"),
        ),
        plant=("alter function weighed(int) volatile",),
        undo=("alter function weighed(int) immutable",),
        loads=("by-function",),
    ),
    Entry(
        "function-computes",
        _KIND,
        Right(objects=("weighed", "public.weighed")),
        plant=(
            "create or replace function weighed(n int) returns int language plpgsql volatile as"
            " $$ declare m int := 0; begin for i in 1..500 loop m := m + i % 7; end loop;"
            " return n * 2; end $$",
        ),
        undo=(
            "create or replace function weighed(n int) returns int language plpgsql immutable as"
            " $$ begin return n * 2; end $$",
        ),
        loads=("function",),
    ),
)
