"""``pgdyno price``: what it refuses, and one short price list from arguments to output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.drill._drill import LoadedServer
from pgdyno.drill.faults import kill
from pgdyno.errors import RunError
from pgdyno.record import RunFile
from pgdyno.record.cut import Cut

Pgdyno = Callable[..., Any]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SHORT = ("-s", "1", "-c", "2", "-q")


def refused(pgdyno: Pgdyno, *arguments: str) -> str:
    said = pgdyno("price", *arguments)
    assert (said.status, said.out) == (1, "")
    assert not Path("pgdyno-runs").exists() or not [*Path("pgdyno-runs").iterdir()]
    return str(said.err)


def test_a_server_of_the_users_own(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "postgresql://host/db") == snapshot("""\
error: prices are measured by crashing the server, and pgdyno crashes only servers that it started

hint: leave the connection string out; --pg-bindir selects the server's binaries
""")


def test_a_rung_that_is_not_there(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--ladder", "async-200ms,sync") == snapshot("""\
error: "sync" is not on the ladder

hint: the ladder has all-on, commit-delay, async-10ms, async-200ms, async-2s, fpw-off, fpw-off-no-checksums, wal-tmpfs, wal-tmpfs-async, wal-tmpfs-sync, unlogged, fsync-off; other candidates are given with --candidate
""")


def test_a_candidate_that_is_no_assignment(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--candidate", "fsync") == snapshot("""\
error: --candidate "fsync": "fsync" is not NAME=VALUE

hint: for example full_page_writes=off,wal_compression=on
""")


def test_a_key_that_cannot_vary(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--candidate", "server.kind=x") == snapshot("""\
error: server.kind: not a key that can differ between slices

hint: keys that can differ: load.*, workload.*, clients.GROUP.*, front.*, pooler.*, workload.ingest, workload.batch, standby.*, server.checksums, kernel.*, disk.wal, disk.data, workload.indexes.TABLE, workload.init.partitions, workload.table_options.TABLE.NAME, server.version, server.bindir; for example load.protocol=simple
""")


def test_an_emulated_disk(pgdyno: Pgdyno) -> None:
    assert refused(pgdyno, "--wal-disk", "slow:flush=2ms") == snapshot("""\
error: disk.wal = slow:flush=2ms: gains are measured only on the machine's own disk

hint: leave disk.wal out; WAL in memory can be priced: --candidate disk.wal=tmpfs:1GB
""")


def test_a_setting_that_the_server_does_not_have(pgdyno: Pgdyno) -> None:
    said = pgdyno("price", *SHORT, "--candidate", "comit_delay=10")
    assert said.status == 1
    assert "comit_delay" in said.err


@pytest.mark.long
def test_a_price_list(pgdyno: Pgdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdyno.price._gain._SLICE_SECONDS_RANGE", (0.2, 0.2))
    monkeypatch.setattr("pgdyno.remedy._assessment.SAFE_FAULTS", ("kill",))
    said = pgdyno("price", *SHORT, "--ladder", "unlogged", "--cuts", "1", "--format", "json",
                  "-o", "list.db")  # fmt: skip
    assert said.status in (0, 4), said.err
    result = json.loads(said.out)
    jsonschema.validate(result, json.loads((REFERENCE / "result-price.schema.json").read_text()))
    rows = {row["candidate"]: row for row in result["prices"]}
    assert [*rows] == ["all-on", "unlogged"]
    assert rows["all-on"]["gain"] is None
    assert rows["unlogged"]["gain"]["pairs"] >= 6
    safe, emptied = rows["all-on"]["losses"][0], rows["unlogged"]["losses"][0]
    assert (safe["fault"], emptied["fault"]) == ("kill", "kill")
    assert (safe["happened"], safe["lost_max"], safe["corrupt"]) == (1, 0, 0)
    assert emptied["lost_max"] == emptied["acked"] > 0, "a crash empties unlogged tables"
    assert (emptied["corrupt"], emptied["refused"], emptied["bound_ms"]) == (0, 0, None)
    with RunFile("list.db") as run:
        assert [trial.kind for trial in run.trials()] == ["noise", "price"]
        assert run.ledger().balanced
        drills = run.drills()
        assert [drill.fault for drill in drills].count("kill") == 2
        assert all(run.cuts(drill.id) for drill in drills)
    shown = pgdyno("show", "list.db")
    assert "unlogged tables" in shown.out
    assert rows["all-on"]["sentence"] in " ".join(shown.out.split())


def test_what_fails_is_one_line_and_not_the_end(
    pgdyno: Pgdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdyno.price._gain._SLICE_SECONDS_RANGE", (0.2, 0.2))
    monkeypatch.setattr("pgdyno.remedy._assessment.SAFE_FAULTS", ("kill",))

    def cuts(drill: LoadedServer) -> Iterator[Cut]:
        yield next(kill.FAULT.cuts(drill))
        raise gone

    gone = RunError("the server is gone", code="gone")
    breaking = replace(kill.FAULT, cuts=cuts)
    monkeypatch.setattr("pgdyno.drill.running.find_fault", lambda name: breaking)
    said = pgdyno("price", *SHORT, "--candidate", "wal_level=minimal", "--cuts", "3",
                  "--format", "json", "-o", "list.db")  # fmt: skip
    assert said.status in (0, 4), said.err
    result = json.loads(said.out)
    jsonschema.validate(result, json.loads((REFERENCE / "result-price.schema.json").read_text()))
    baseline, refused_row = result["prices"]
    (loss,) = baseline["losses"]
    assert (loss["cuts"], loss["happened"], loss["broke_off"]) == (1, 1, gone.message)
    assert "max_wal_senders" in refused_row["gain"]["why"]
    assert "max_wal_senders" in refused_row["losses"][0]["why"]
    with RunFile("list.db") as run:
        assert [len(run.cuts(drill.id)) for drill in run.drills()] == [1]


def test_a_candidate_that_changes_nothing(pgdyno: Pgdyno) -> None:
    said = pgdyno("price", *SHORT, "--candidate", "wal_writer_delay=0.2s,fsync=yes")
    assert (said.status, said.out) == (1, "")
    assert said.err.startswith(
        "error: wal_writer_delay = 0.2s, fsync = yes: already active on the server"
    )


def test_the_spec_says_what_is_priced(pgdyno: Pgdyno) -> None:
    Path("list.toml").write_text('[price]\nladder = ["sync"]\n')
    assert refused(pgdyno, "list.toml").startswith('error: "sync" is not on the ladder')
    Path("list.toml").write_text('[price]\ncandidates = ["fsync"]\n')
    assert refused(pgdyno, "list.toml").startswith(
        'error: price.candidates "fsync": "fsync" is not NAME=VALUE'
    )
    assert refused(pgdyno, "list.toml", "--candidate", "x").startswith('error: --candidate "x"')
