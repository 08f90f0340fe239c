"""``pgdyno price``: what it refuses, and one short price list from arguments to output."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from inline_snapshot import snapshot

from pgdyno.record import RunFile

Pgdyno = Callable[..., Any]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SHORT = ("-s", "1", "-c", "2", "--budget", "1s", "-q")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(pgdyno: Pgdyno, *arguments: str) -> str:
    said = pgdyno("price", *arguments)
    assert (said.status, said.out) == (1, "")
    assert not Path("pgdyno-runs").exists() or not [*Path("pgdyno-runs").iterdir()]
    return str(said.err)


def test_a_server_of_the_users_own(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "postgresql://host/db") == snapshot("""\
error: prices are measured by crashing the server, and pgdyno crashes only servers that it started

hint: leave the connection string out; --pg-bindir names the server's programs
""")


def test_a_rung_that_is_not_there(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--ladder", "async-200ms,sync") == snapshot("""\
error: "sync" is not on the ladder

hint: it has all-on, commit-delay, async-10ms, async-200ms, async-2s, fpw-off, fpw-off-no-checksums, wal-tmpfs, wal-tmpfs-async, wal-tmpfs-sync, unlogged, fsync-off; what else is to be priced goes with --candidate
""")


def test_a_candidate_that_is_no_assignment(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--candidate", "fsync") == snapshot("""\
error: --candidate "fsync": "fsync" is not NAME=VALUE

hint: for example --candidate full_page_writes=off,wal_compression=on
""")


def test_a_key_that_cannot_vary(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--candidate", "disk.data=tmpfs:1GB") == snapshot("""\
error: disk.data: not a key that can differ between slices

hint: keys of load, workload, clients.GROUP and standby can, disk.wal and server.checksums; for example load.protocol=simple
""")


def test_an_emulated_disk(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--wal-disk", "slow:flush=2ms") == snapshot("""\
error: disk.wal = slow:flush=2ms: a gain is measured on the machine's own disk, and this is none

hint: leave disk.wal out; WAL in memory can be priced: --candidate disk.wal=tmpfs:1GB
""")


def test_a_setting_that_the_server_does_not_have(pgdyno: Pgdyno) -> None:
    said = pgdyno("price", *SHORT, "--candidate", "comit_delay=10")
    assert said.status == 1
    assert "comit_delay" in said.err


def test_a_price_list(pgdyno: Pgdyno) -> None:
    said = pgdyno("price", *SHORT, "--ladder", "async-200ms", "--candidate", "disk.wal=tmpfs:128MB",
                  "--cuts", "1", "--format", "json", "-o", "list.db")  # fmt: skip
    assert said.status in (0, 4), said.err
    result = json.loads(said.out)
    jsonschema.validate(result, json.loads((REFERENCE / "result-price.schema.json").read_text()))
    rows = {row["candidate"]: row for row in result["prices"]}
    assert [*rows] == ["all-on", "async-200ms", "disk.wal=tmpfs:128MB"]
    assert rows["all-on"]["gain"] is None
    assert rows["async-200ms"]["gain"]["pairs"] >= 6
    assert rows["disk.wal=tmpfs:128MB"]["gain"]["measured"]
    kill = next(loss for loss in rows["all-on"]["losses"] if loss["fault"] == "kill")
    assert (kill["happened"], kill["lost_max"], kill["corrupt"]) == (1, 0, 0)
    with RunFile("list.db") as run:
        assert [trial.kind for trial in run.trials()] == ["noise", "price", "price"]
        assert run.ledger().balanced
        faults = [drill.fault for drill in run.drills()]
        assert faults.count("kill") == 2
        assert all(run.cuts(drill.id) for drill in run.drills())
    shown = pgdyno("show", "list.db")
    assert "disk.wal=tmpfs:128MB" in shown.out
    assert "kill: lost nothing in 1 cut" in shown.out


def test_gains_alone_as_csv(pgdyno: Pgdyno) -> None:
    said = pgdyno("price", *SHORT, "--candidate", "commit_delay=10", "--cuts", "0",
                  "--format", "csv", "-o", "gains.db")  # fmt: skip
    assert said.status in (0, 4), said.err
    rows = [*csv.DictReader(io.StringIO(said.out))]
    assert [(row["candidate"], row["fault"]) for row in rows] == [
        ("all-on", "kill"),
        ("all-on", "power"),
        ("commit_delay=10", "kill"),
        ("commit_delay=10", "power"),
    ]
    assert {row["why"] for row in rows} == {"no cuts were asked for"}
    assert float(rows[2]["throughput_ratio"]) > 0
