"""The ack ledger on real servers: it agrees with the intervals, and with what the server kept."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psycopg
import pytest
from engine_runs import Run, config

from patience import PATIENCE_S, wait_until
from pgdyno._engine import Load, ScriptError
from pgdyno.record import AckLedger, AckOutcome, read_acks
from pgdyno.server import Cluster, ConnInfo

pytestmark = [pytest.mark.server, pytest.mark.alike]

TABLE = """
    drop table if exists kept;
    create table kept (client int, txn bigint, part int)
"""
BLOCK = """
    begin;
    insert into kept values (:client_id, :txn, 0);
    insert into kept values (:client_id, :txn, 1);
    commit;
"""


def execute(conninfo: ConnInfo, sql: str) -> list[tuple[int, ...]]:
    with psycopg.connect(**conninfo.kwargs(), autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def kept(conninfo: ConnInfo) -> Counter[tuple[int, int]]:
    """(client, transaction) → rows."""
    return Counter(
        {(c, t): n for c, t, n in execute(conninfo, "select client, txn, count(*) from kept"
                                                    " group by client, txn")}
    )  # fmt: skip


def chosen(ledger: AckLedger, mask: np.ndarray) -> set[tuple[int, int]]:
    records = ledger.records[mask]
    return {(int(c), int(t)) for c, t in zip(records["client"], records["txn"], strict=True)}


def assert_agrees(ledger: AckLedger, run: Run) -> None:
    """The ledger's columns are those of the intervals, and no number is missing."""
    assert ledger.problems() == []
    assert ledger.torn_bytes == 0
    total = run.total
    # An open loop skips some before a client takes them.
    counted = {name: total[name] for name in ledger.columns}
    assert counted.pop("skipped") >= ledger.columns["skipped"]
    assert counted.items() <= ledger.columns.items()
    records = ledger.records
    sent = records[records["sent_ns"] != 0]
    assert (sent["intended_ns"] <= sent["sent_ns"]).all()
    assert (sent["sent_ns"] <= sent["ended_ns"]).all()
    committed = records[records["commits"] != 0]
    assert (committed["commit_sent_ns"] >= committed["sent_ns"]).all()


def assert_kept(ledger: AckLedger, conninfo: ConnInfo, parts: int) -> None:
    """What was committed for sure is there, what surely failed is not, nothing is half there."""
    there = kept(conninfo)
    records = ledger.records
    committed = chosen(ledger, records["commits"] != 0)
    doubtful = chosen(ledger, records["outcome"] == AckOutcome.UNKNOWN)
    assert committed <= set(there)
    assert set(there) <= committed | doubtful
    assert set(there.values()) <= {parts}


@pytest.mark.parametrize("protocol", ["prepared", "simple"])
@pytest.mark.parametrize("pool", [None, {"max": 2}])
def test_every_acknowledged_transaction_is_in_the_ledger_and_in_the_table(
    pg: Cluster, tmp_path: Path, protocol: str, pool: object
) -> None:
    execute(pg.conninfo, TABLE)
    failing = "begin;\ninsert into kept values (:client_id, :txn, 0);\nselect 1 / 0;\ncommit;"
    acks = {"directory": str(tmp_path / "acks")}
    keys = {"protocol": protocol, "pool": pool, "threads": 2, "acks": acks}
    with Run(config(pg.conninfo, BLOCK, failing, **keys)) as run:
        run.wait_for(lambda run: run.total["done"] > 50 and run.total["failed"] > 20)
    run.assert_balanced()
    ledger = read_acks(tmp_path / "acks")
    assert_agrees(ledger, run)
    assert_kept(ledger, pg.conninfo, 2)
    assert ledger.outcomes["acked"] == run.total["done"]
    assert ledger.outcomes["failed"] == run.total["failed"]
    failed = ledger.records[ledger.records["outcome"] == AckOutcome.FAILED]
    assert set(failed["sqlstate"]) == {b"22012"}
    assert set(failed["statements"]) == {2}
    assert [script.statements for script in ledger.loads[0].scripts] == [4, 4]


def test_pipelines_and_rollbacks_commit_what_the_ledger_says(pg: Cluster, tmp_path: Path) -> None:
    insert = "insert into kept values (:client_id, :txn, 0)"
    piped = f"\\startpipeline\nbegin;\n{insert};\n{insert};\ncommit;\n\\endpipeline"
    undone = f"begin;\n{insert};\nrollback;"
    broken = f"begin;\n{insert};\n\\expect 22012\nselect 1 / 0;\ncommit;"
    several = f"{insert};\n{insert};"
    execute(pg.conninfo, TABLE)
    acks = {"directory": str(tmp_path)}
    with Run(config(pg.conninfo, piped, undone, broken, several, acks=acks)) as run:
        run.wait_for_more("done", 100)
    ledger = read_acks(tmp_path)
    assert_agrees(ledger, run)
    assert_kept(ledger, pg.conninfo, 2)
    commits = [set(ledger.records["commits"][ledger.records["row"] == row]) for row in range(4)]
    assert commits == [{1}, {0}, {0}, {2}]


def test_a_server_killed_in_mid_load_keeps_what_it_acknowledged(
    new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = new_cluster(18, fsync="on")
    execute(cluster.conninfo, TABLE)
    acks = {"directory": str(tmp_path)}
    keys = {"clients": 12, "threads": 2, "backoff_ms_max": 100, "acks": acks}
    with Run(config(cluster.conninfo, BLOCK, **keys)) as run:
        for _ in range(2):
            run.wait_for_more("done", 200)
            cluster.kill()
            cluster.start()
        run.wait_for_more("done", 100)
    run.assert_balanced()
    ledger = read_acks(tmp_path)
    assert_agrees(ledger, run)
    assert_kept(ledger, cluster.conninfo, 2)
    assert run.total["failed"] == ledger.outcomes["failed"] + ledger.outcomes["unknown"] > 0


def test_what_is_cut_off_at_the_end_is_in_doubt_only_if_it_may_commit(
    pg: Cluster, tmp_path: Path
) -> None:
    execute(pg.conninfo, TABLE)
    slow = "insert into kept select :client_id, :txn, 0 from pg_sleep(60)"
    acks = {"directory": str(tmp_path)}
    block = f"begin;\n{slow};\ncommit;"
    with Run(config(pg.conninfo, f"{slow};", block, acks=acks), drain_ms=0) as run:
        run.wait_for(lambda run: run.total["sent"] == 4)
    ledger = read_acks(tmp_path)
    assert_agrees(ledger, run)
    assert ledger.columns["cancelled"] == 4
    doubtful = ledger.records["outcome"] == AckOutcome.UNKNOWN
    assert set(ledger.records["row"][doubtful]) <= {0}
    assert set(ledger.records["row"][~doubtful]) <= {1}


def test_numbers_go_on_when_clients_come_and_go_and_pools_time_out(
    pg18: Cluster, tmp_path: Path
) -> None:
    acks = {"directory": str(tmp_path)}
    pool = {"max": 1, "max_wait_ms": 3}
    script = "select pg_sleep(0.002);"
    with Run(config(pg18.conninfo, script, clients=6, pool=pool, acks=acks)) as run:
        for clients in (2, 6, 1, 5):
            run.load.set_clients("g", clients)
            run.wait_for_more("done", 10)
        run.load.set_clients("g", 6)
        run.wait_for(lambda run: run.errors["pool-timeout", False, False] > 0)
    ledger = read_acks(tmp_path)
    assert_agrees(ledger, run)
    assert ledger.outcomes["unsent"] == run.errors["pool-timeout", False, False]


def test_an_open_loop_has_a_record_of_what_its_clients_gave_up(
    pg18: Cluster, tmp_path: Path
) -> None:
    profile = {
        "kind": "segments",
        "segments": [{"duration_ms": 1, "rate_from": 400, "rate_to": 400}],
    }
    keys = {
        "arrival": {"process": "constant", "profile": profile, "when_busy": "queue"},
        "latency_limit_us": 30_000,
        "pool": {"max": 1},
        "clients": 8,
        "acks": {"directory": str(tmp_path)},
    }
    with Run(config(pg18.conninfo, "select pg_sleep(0.01);", **keys)) as run:
        run.wait_for(lambda run: run.total["skipped"] > 20 and run.total["done"] > 20)
    run.assert_balanced()
    ledger = read_acks(tmp_path)
    assert_agrees(ledger, run)
    assert 0 < ledger.outcomes["unsent"] == ledger.columns["skipped"] <= run.total["skipped"]


def test_two_loads_share_a_directory_and_are_told_apart(pg18: Cluster, tmp_path: Path) -> None:
    for _ in range(2):
        with Run(config(pg18.conninfo, "select 1;", acks={"directory": str(tmp_path)})) as run:
            run.wait_for_more("done", 20)
    ledger = read_acks(tmp_path)
    assert ledger.problems() == []
    assert len(ledger.loads) == 2
    assert set(ledger.records["load"]) == {0, 1}


KILLED = """
import signal, sys
from pgdyno._engine import Load
load = Load(sys.stdin.read())
load.start()
print("started", flush=True)
signal.pause()
"""


def test_a_killed_generator_leaves_whole_records(pg18: Cluster, tmp_path: Path) -> None:
    execute(pg18.conninfo, TABLE)
    load = config(pg18.conninfo, BLOCK, acks={"directory": str(tmp_path)}, threads=2)
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(load)
        process.stdin.close()
        assert process.stdout.readline() == "started\n"
        while not any(path.stat().st_size > 20_000 for path in tmp_path.iterdir()):
            time.sleep(0.02)
        process.kill()
    ledger = read_acks(tmp_path)
    assert ledger.problems() == []
    assert ledger.outcomes["acked"] == len(ledger.records) > 100
    sessions = "select 1 from pg_stat_activity where application_name = 'pgdyno'"
    wait_until(lambda: not execute(pg18.conninfo, sessions), "no session is left")
    assert chosen(ledger, ledger.records["commits"] != 0) <= set(kept(pg18.conninfo))


def test_a_full_disk_ends_the_load_with_one_error(pg18: Cluster, tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: a process of its own has it."""
    limited = KILLED.replace(
        "load.start()",
        "import json, resource, time\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n"
        "load.start()\n"
        "while load.state() == 'running': time.sleep(0.01)\n"
        "load.stop(1000)\n"
        "print(json.dumps(load.fatal()), flush=True)\n"
        "sys.exit()",
    )
    load = config(pg18.conninfo, "select 1;", acks={"directory": str(tmp_path)})
    ended = subprocess.run(
        [sys.executable, "-c", limited],
        input=load,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    fatal = json.loads(ended.stdout)
    assert fatal["code"] == "acks-unwritable"
    assert "File too large" in fatal["message"]
    ledger = read_acks(tmp_path)
    assert ledger.problems() == []
    assert 0 < len(ledger.records) * 64 < 30_000


WITNESSED = """
    drop table if exists witness, counter;
    create table witness (load bigint, grp int, client int, txn bigint,
        primary key (load, grp, client, txn));
    create table counter (id int primary key, n int);
    insert into counter values (1, 0);
"""
WITNESS = "insert into witness values (7, 0, :client_id, :txn)"
WITNESSED_SCRIPTS = {
    "a block": "begin; select 1; commit;",
    "no block": "select 1;\nselect 2;",
    "names of its own": "\\set txn 5\n\\set client_id 6\nselect :txn::int + :client_id::int;",
    "several blocks": "begin; select 1; commit; begin; select 2; end; select 3;",
    "an expected error": "\\expect 42601\nnonsense;",
    "retries": (
        # It holds the row until all clients want it.
        "begin isolation level serializable;\nupdate counter set n = n + 1 where id = 1;\n"
        "select pg_sleep(0.005);\ncommit;"
    ),
}


@pytest.mark.parametrize("protocol", ["prepared", "extended", "simple"])
@pytest.mark.parametrize("script", WITNESSED_SCRIPTS.values(), ids=WITNESSED_SCRIPTS)
def test_each_acknowledged_transaction_leaves_one_witness(
    pg: Cluster, tmp_path: Path, script: str, protocol: str
) -> None:
    execute(pg.conninfo, WITNESSED)
    acks = {"directory": str(tmp_path / "acks"), "label": 7}
    keys = {"protocol": protocol, "witness": WITNESS, "transactions": 12, "max_tries": 1000}
    with Run(config(pg.conninfo, script, acks=acks, **keys)) as run:
        run.wait_for(lambda run: run.total["done"] == 48)
    ledger = read_acks(tmp_path / "acks")
    assert ledger.loads[0].label == 7
    assert_agrees(ledger, run)
    rows = execute(pg.conninfo, "select client, txn from witness where load = 7 and grp = 0")
    assert sorted(rows) == [(client, txn) for client in range(4) for txn in range(12)]
    done = {
        row["statement"]: sum(r["done"] for i in run.intervals for r in i["statements"]
                              if r["statement"] == row["statement"])
        for i in run.intervals for row in i["statements"]
    }  # fmt: skip
    assert done[WITNESS] >= 48
    if "serializable" in script:
        assert execute(pg.conninfo, "select n from counter") == [(48,)]
        assert run.total["retried"] > 0


@pytest.mark.parametrize(
    ("script", "witness", "message"),
    [
        ("\\startpipeline\nselect 1;\n\\endpipeline", WITNESS, "a pipeline does not allow that"),
        ("begin; select 1;", WITNESS, "this transaction has none"),
        ("begin\\; select 1\\; commit;", WITNESS, "joined statements"),
        ("select 1;", "select 1; select 2", "a witness is one statement"),
    ],
)
def test_where_no_witness_can_be_left_is_refused(
    pg18: Cluster, script: str, witness: str, message: str
) -> None:
    with pytest.raises(ScriptError, match=message):
        Load(config(pg18.conninfo, script, witness=witness))
