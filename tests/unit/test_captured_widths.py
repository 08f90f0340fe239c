"""Widths of texts, told by the WAL that INSERTs write."""

from __future__ import annotations

from msgspec.structs import replace

from pgdyno.capture._widths import with_widths
from pgdyno.clone.capture_file import Column, Index, Parameter, Reference, Statement, Table

_NAME, _NOTE = Column("name", "text", "text"), Column("note", "text", "text")
_PEOPLE = Table("public", "people", 20, 1, (_NAME,), (("name",),), True)
_TO_PEOPLE = Reference(("name",), "public.people", ("name",))
_NOTES = Table(
    "public",
    "notes",
    20,
    9,
    (_NAME, _NOTE, Column("at", "bigint", "int8")),
    references=(_TO_PEOPLE,),
    indexes=(Index("USING btree (at DESC, name)"), Index("USING btree (lower(note))")),
)


def _insert(table: Table, *columns: str, wal: float, more: str = "") -> Statement:
    parameters = tuple(Parameter("text", "inserted", table.full_name, each) for each in columns)
    text = f"insert into {table.name} ({', '.join(columns)}) values ($1){more}"
    return Statement(text, parameters, 10.0, 1.0, 0.1, wal)


def _widths(*statements: Statement, notes: Table = _NOTES) -> list[float | None]:
    found = with_widths((_PEOPLE, notes), statements)
    return [each.width_bytes for table in found for each in table.columns]


def test_the_wal_of_rows_tells_the_widths_of_texts() -> None:
    # A row of 54 bytes and a key of 52, with 30 bytes of the name in each.
    person = _insert(_PEOPLE, "name", wal=(54 + 52 + 2 * 30) / 0.95)
    # A row, its key in one index, the lock of the person, two names, a number twice, and the note.
    note = _insert(_NOTES, "name", "note", "at", wal=(54 + 52 + 54 + 2 * 30 + 16 + 200) / 0.95)
    name, again, wide, at = _widths(person, note)
    assert name is not None
    assert wide is not None
    assert abs(name - 30) < 3
    assert abs(wide - 200) < 6
    # What refers to a column has its values.
    assert again is at is None


def test_the_wal_of_several_rows_tells_widths_of_each() -> None:
    rows = _insert(_PEOPLE, "name", "name", wal=2 * (54 + 52 + 2 * 30) / 0.95)
    name, *_ = _widths(replace(rows, rows=2.0))
    assert name is not None
    assert abs(name - 30) < 1
    # Rows that have other columns each are none of VALUES.
    notes = _insert(_NOTES, "name", "note", "name", wal=400)
    assert _widths(replace(notes, rows=2.0)) == [None] * 4


def test_some_wal_does_not_tell_widths() -> None:
    person = _insert(_PEOPLE, "name", wal=166)
    assert _widths(replace(person, text=f"{person.text} on conflict do nothing")) == [None] * 4
    assert _widths(replace(person, wal_images=0.5)) == [None] * 4
    assert _widths(_insert(_PEOPLE, "name", wal=20)) == [None] * 4
    other = replace(_NOTES, indexes=(Index("USING gin (note)"),), references=())
    assert _widths(_insert(other, "note", wal=500), notes=other) == [None] * 4
    many = replace(_NOTES, rows=50_000)
    assert _widths(_insert(many, "note", wal=500), notes=many) == [None] * 4


def test_texts_have_no_more_room_than_the_pages_of_the_table() -> None:
    """The pages of indexes are divided, which writes WAL, too."""
    person = _insert(_PEOPLE, "name", wal=(54 + 52 + 2 * 30) / 0.95)
    note = _insert(_NOTES, "name", "note", "at", wal=(54 + 52 + 54 + 2 * 30 + 16 + 500) / 0.95)
    widths = []
    for rows in (100, 200):
        name, _, wide, _ = _widths(person, note, notes=replace(_NOTES, rows=rows, pages=9))
        assert name is not None
        assert abs(name - 30) < 3
        widths.append(wide or 0.0)
    assert abs(widths[0] - 500) < 10
    assert abs(widths[1] - 290) < 10
