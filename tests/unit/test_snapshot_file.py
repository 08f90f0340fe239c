"""The description of a snapshot: what is read back, and what is refused with its file and key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from pgdyno.server.local.snapshots import CopiedDatabase, Damage, Snapshot, read_description

WRITTEN = Snapshot(
    name="big",
    saved_at="2026-11-24T03:51:10+00:00",
    version="18.6",
    version_num=180_006,
    bindir="/usr/lib/postgresql/18/bin",
    capabilities={"lz4": True},
    bytes=113_000_000,
    workload=("tpcb-like",),
    scale=100,
    rows={"public.pgbench_accounts": 10_000_000},
    load_s=60.0,
    run_file="/home/u/run.db",
    aged="xid",
    xid_age=1_700_000_000,
    mxid_age=0,
    parent=None,
    setup_sha256=None,
    origin=CopiedDatabase("shop", "postgresql://joe@db.example:5432/shop", "16.4"),
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "big"
    (made / "data").mkdir(parents=True)
    return made


def damage(directory: Path, text: str) -> str:
    (directory / "snapshot.json").write_text(text)
    found = read_description(directory)
    assert isinstance(found, Damage)
    return found.why.removeprefix(f"{directory}/")


def test_what_is_written_is_read(directory: Path) -> None:
    (directory / "snapshot.json").write_text(json.dumps(WRITTEN.to_json()))
    assert read_description(directory) == WRITTEN
    of_a_workload = {**WRITTEN.to_json(), "origin": None}
    (directory / "snapshot.json").write_text(json.dumps(of_a_workload))
    assert read_description(directory) == replace(WRITTEN, origin=None)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"scale": 10**30}, "scale: should be less than or equal to 100000"),
        ({"bytes": -1}, "bytes: should be greater than or equal to 0"),
        ({"load_s": float("nan")}, "load_s: should be a finite number"),
        ({"load_s": 1e300}, "load_s: should be less than or equal to 3153600000"),
        ({"xid_age": 1 << 31}, "xid_age: should be less than 2147483648"),
        ({"rows": {"public.t": -1}}, "rows.public.t: should be greater than or equal to 0"),
        ({"saved_at": "soon"}, "saved_at: Invalid isoformat string: 'soon'"),
        ({"saved_at": "2026-11-24T03:51:10"}, "saved_at: a time without its zone"),
        ({"version_num": 9}, "version_num: should be greater than or equal to 140000"),
        ({"aged": "rows"}, "aged: should be 'xid' or 'mxid'"),
        ({"scale": None}, "scale: should be a valid integer"),
        ({"workload": "abc"}, "workload: should be a valid array"),
        ({"name": "small"}, "name: it is that of another snapshot"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_value_that_cannot_be_is_refused(
    fields: dict[str, Any], why: str, directory: Path
) -> None:
    said = damage(directory, json.dumps(WRITTEN.to_json() | fields))
    assert said == f"snapshot.json: {why}"


def test_what_is_missing_is_named(directory: Path) -> None:
    fields = WRITTEN.to_json()
    del fields["rows"]
    assert damage(directory, json.dumps(fields)) == "snapshot.json: rows: Field required"
    assert damage(directory, "{").startswith("snapshot.json: Invalid JSON: ")
    assert damage(directory, "[]") == snapshot("snapshot.json: should be an object")
    (directory / "data").rmdir()
    assert damage(directory, json.dumps(WRITTEN.to_json())) == snapshot("data is missing")
    (directory / "snapshot.json").unlink()
    found = read_description(directory)
    assert isinstance(found, Damage)
    assert found.why == f"{directory / 'snapshot.json'}: No such file or directory"
