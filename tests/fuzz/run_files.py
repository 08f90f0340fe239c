"""Damages run files, bytes and values, and reads them with every command that reads one.

A page, a summary or one message: never a traceback, and never a wrong status.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

from rounds import pgdyno, play, scratch  # isort: skip; it says where the other ones are

from drill_runs import lossy_run
from report_runs import comparison_run, empty_run, investigation_run, plain_run

FOLDER = scratch()
VALUES = (
    None, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 1.5, -1e308, float("inf"), "", "x", "\x1b[31m",
    "[]", "{}", "null", "[1]", '{"a": 1}', "NaN", "1e999", b"", b"\xff\x00", "x" * 10_000,
    "[" * 5000,
)  # fmt: skip

JSON_VALUES = ("null", "0", "-1", '"x"', "[]", "{}", "1e308")


def _made() -> dict[str, bytes]:
    """Sound run files of each kind, as bytes."""
    made = {}
    for make in (plain_run, comparison_run, investigation_run, lossy_run, empty_run):
        path = make(FOLDER / f"{make.__name__}.db")
        made[make.__name__] = path.read_bytes()
    return made


def cut_short(path: Path, rng: random.Random) -> str:
    size = rng.randrange(path.stat().st_size)
    os.truncate(path, size)
    return f"cut short to {size} bytes"


def flip_bytes(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    places = [rng.randrange(len(content)) for _ in range(rng.choice([1, 3, 50, 1000]))]
    for place in places:
        content[place] = rng.randrange(256)
    path.write_bytes(content)
    return f"{len(places)} bytes changed"


def blank_stretch(path: Path, rng: random.Random) -> str:
    content = bytearray(path.read_bytes())
    begin = rng.randrange(len(content))
    length = rng.choice([16, 512, 4096, 65536])
    content[begin : begin + length] = bytes(len(content[begin : begin + length]))
    path.write_bytes(content)
    return f"{length} bytes from {begin} on are zero"


def drop_table(path: Path, rng: random.Random) -> str:
    table = rng.choice(tables(path))
    return change(path, f"drop table {table}")


def drop_column(path: Path, rng: random.Random) -> str:
    table = rng.choice(tables(path))
    column = rng.choice(columns(path, table))
    return change(path, f"alter table {table} drop column {column}")


def delete_rows(path: Path, rng: random.Random) -> str:
    table, part = rng.choice(tables(path)), rng.choice([1, 2, 3])
    return change(path, f"delete from {table} where rowid % {part} = 0")


def change_value(path: Path, rng: random.Random) -> str:
    table = rng.choice(tables(path))
    column, value = rng.choice(columns(path, table)), rng.choice(VALUES)
    which = rng.choice(["", " where rowid % 2 = 0", " where rowid = 1"])
    return change(path, f"update {table} set {column} = ?{which}", [value])


def change_json(path: Path, rng: random.Random) -> str:
    """A value within a JSON column: the place of a random key or element."""
    table = rng.choice([name for name in tables(path) if json_columns(path, name)])
    column = rng.choice(json_columns(path, table))
    with sqlite3.connect(path) as db:
        places = db.execute(
            f"select fullkey from {table}, json_tree({table}.{column}) where json_valid({column})"
        ).fetchall()
    db.close()
    if not places:
        return "nothing"
    place, value = (
        rng.choice(places)[0],
        rng.choice(["null", "0", "-1", '"x"', "[]", "{}", "1e308"]),
    )
    if rng.random() < 0.3:
        return change(path, f"update {table} set {column} = json_remove({column}, ?)", [place])
    sql = f"update {table} set {column} = json_set({column}, ?, json(?))"
    return change(path, sql, [place, value])


def stop(path: Path, rng: random.Random) -> str:
    """As if pgdyno had been killed at some moment: no damage, so every command must read it."""
    with sqlite3.connect(path) as db:
        (end_ms,) = db.execute("select coalesce(max(at_ms), 1000) from interval").fetchone()
    db.close()
    at_ms = rng.randrange(end_ms + 2)
    for table in tables(path):
        if "at_ms" in columns(path, table):
            change(path, f"delete from {table} where at_ms > ?", [at_ms])
    change(path, "delete from slice where started_ms > ?", [at_ms])
    change(path, "update slice set ended_ms = null where ended_ms > ?", [at_ms])
    change(path, "delete from trial where id not in (select trial_id from slice)")
    told = [name for name in columns(path, "trial") if "_ratio" in name]
    unfinished = ", ".join(f"{name} = null" for name in (*told, "pairs", "verdict", "decision"))
    open_ones = "id in (select trial_id from slice where ended_ms is null)"
    change(path, f"update trial set {unfinished} where {open_ones}")
    change(path, "update run set status = 'running', result_json = '{}', ended_ms = null")
    return f"stopped after {at_ms} ms"


DAMAGES: tuple[Callable[[Path, random.Random], str], ...] = (
    *(stop, stop, stop, cut_short, flip_bytes, blank_stretch, drop_table, drop_column, delete_rows),
    *(change_value, change_value, change_json, change_json, change_json),
)


def tables(path: Path) -> list[str]:
    return _names(path, "select name from sqlite_schema where type = 'table'")


def columns(path: Path, table: str) -> list[str]:
    return _names(path, f"select name from pragma_table_info('{table}')")


def json_columns(path: Path, table: str) -> list[str]:
    return [name for name in columns(path, table) if name.endswith("_json")]


def _names(path: Path, sql: str) -> list[str]:
    with sqlite3.connect(path) as db:
        names = [name for (name,) in db.execute(sql)]
    db.close()
    return names


def change(path: Path, sql: str, values: list[object] | None = None) -> str:
    db = sqlite3.connect(path)
    try:
        with db:
            db.execute("pragma ignore_check_constraints = on")
            db.execute(sql, values or [])
    except sqlite3.Error:
        return "nothing"
    finally:
        db.close()
    return f"{sql} {values or ''}"


def one(rng: random.Random) -> str | None:
    """Damages one run file, and reads it."""
    for left in FOLDER.glob("damaged*"):
        left.unlink()
    kind, damage = rng.choice(list(SOUND)), rng.choice(DAMAGES)
    path = FOLDER / "damaged.db"
    path.write_bytes(SOUND[kind])
    did = damage(path, rng)
    page = str(FOLDER / "damaged.html")
    reading = [["show"], ["show", "--format", "json"], ["show", "--format", "spec"]]
    if damage is stop or rng.random() < 0.3:
        reading.append(["report", "-o", page])
    for words in reading:
        said = pgdyno(*words, str(path))
        allowed = (0,) if damage is stop else (0, 1)
        if (complaint := said.complaint) or said.status not in allowed:
            return f"{kind}, {did[:200]}: {' '.join(words)}: {complaint or said}"
    return None


if __name__ == "__main__":
    SOUND = _made()
    play("run files", one)
