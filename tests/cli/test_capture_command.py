"""``pgdyno capture`` on the command line: the output of a capture, and wrong use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from pgdyno.record import RunFile

if TYPE_CHECKING:
    from printed import Said

SHOP: dict[str, Any] = {
    "format": "pgdyno capture",
    "version": 1,
    "made_by": "pgdyno 0.1.0",
    "source": {
        "major": 16,
        "seconds": 60.0,
        "transactions_per_s": 250.0,
        "sessions": 2,
        "busy_sessions": 1.5,
    },
    "tables": [
        {
            "schema": "public",
            "name": "orders",
            "rows": 1000.0,
            "pages": 20,
            "columns": [
                {"name": "id", "type": "bigint", "base": "int8", "not_null": True},
                {"name": "state", "type": "text", "base": "text", "distinct": 3, "width_bytes": 7},
            ],
            "keys": [["id"]],
            "has_primary": True,
            "indexes": [{"sql": "USING btree (state)"}],
        }
    ],
    "statements": [
        {
            "text": "select state from orders where id = $1",
            "parameters": [
                {"type": "bigint", "use": "compared", "table": "public.orders", "column": "id"}
            ],
            "calls_per_s": 250.0,
            "rows": 1.0,
            "ms": 0.02,
            "wal_bytes": 0.0,
        }
    ],
    "transactions": [{"per_s": 250.0, "steps": [{"statement": 0}]}],
    "gaps": ["tables of temporary sessions are left out"],
    "settings": {"enable_gone": "off", "work_mem": "7MB"},
}


@pytest.fixture
def shop(pgdyno: Callable[..., Said]) -> str:
    Path("shop.pgdyno").write_text(json.dumps(SHOP))
    return "shop.pgdyno"


def test_show_prints_all_of_it(pgdyno: Callable[..., Said], shop: str) -> None:
    said = pgdyno("capture", "show", shop)
    assert said.status == 0, said.err
    assert said.out == snapshot("""\
PostgreSQL 16, watched for 1 min: 250 transactions/s, 2 sessions, 1.5 of them within a transaction on average
settings: enable_gone = off, work_mem = 7MB
statements that take the most time:
  100 %: select state from orders where id = $1
1 statement in 1 kind of transactions; 1 table with 1,000 rows, 160 kB

transaction 1: 250/s, without a block
  select state from orders where id = $1
    250/s, 0.02 ms, 1 row and 0 B of WAL a call
    $1 bigint compared with public.orders.id

table public.orders: 1,000 rows, 160 kB
  id bigint (not null)
  state text (3 different, 7 bytes)
  primary key (id)
  index USING btree (state)
note: tables of temporary sessions are left out
""")
    as_json = json.loads(pgdyno("capture", "show", shop, "--format=json").out)
    assert as_json["transactions"] == SHOP["transactions"]


def test_show_has_all_code(pgdyno: Callable[..., Said]) -> None:
    computed = {"name": "size", "type": "integer", "base": "int4", "generated": "(length(state))"}
    columns = [*SHOP["tables"][0]["columns"], computed]
    table = {**SHOP["tables"][0], "columns": columns, "checks": ["CHECK ((id > 0))"]}
    function = {"schema": "public", "name": "f", "sql": "CREATE FUNCTION public.f() …"}
    view = {"schema": "public", "name": "v", "sql": " SELECT id\n   FROM orders"}
    capture = {**SHOP, "tables": [table], "functions": [function], "views": [view]}
    Path("code.pgdyno").write_text(json.dumps(capture))
    shown = pgdyno("capture", "show", "code.pgdyno").out.splitlines()
    assert shown[shown.index("  index USING btree (state)") - 2 :] == snapshot(
        [
            "  size integer (computed as (length(state)))",
            "  primary key (id)",
            "  index USING btree (state)",
            "  CHECK ((id > 0))",
            "CREATE FUNCTION public.f() …",
            "create view public.v as  SELECT id",
            "   FROM orders",
            "note: tables of temporary sessions are left out",
        ]
    )


def test_options_of_clients_are_about_all_applications(pgdyno: Callable[..., Said]) -> None:
    both = [{"sessions": 3, "busy_sessions": 2.0, "per_s": [200.0]}] * 2
    steps = [{"statement": 0}, {"statement": 0, "times": 0.8, "share": 0.4}]
    transactions = [{"per_s": 250.0, "steps": steps}]
    apps = {**SHOP, "applications": both, "transactions": transactions}
    Path("apps.pgdyno").write_text(json.dumps(apps))
    shown = pgdyno("capture", "show", "apps.pgdyno").out.splitlines()
    assert [line for line in shown if "application" in line or "in 40" in line] == snapshot(
        [
            "application 1: 3 sessions, 2 within a transaction; transactions 1 (200/s)",
            "application 2: 3 sessions, 2 within a transaction; transactions 1 (200/s)",
            "  in 40 %, 0.8 times: select state from orders where id = $1",
        ]
    )
    said = pgdyno("run", "apps.pgdyno", "-c", "2", "-t", "5", "-o", "one.db")
    assert said.status == 0, said.err
    assert "2 clients" in said.out
    said = pgdyno("run", "apps.pgdyno", "-t", "5", "-o", "two.db")
    assert said.status == 0, said.err
    both_groups = "3 clients (application 1) · 3 clients (application 2)"
    assert both_groups in " ".join(said.out.split())


def test_the_difference_of_two(pgdyno: Callable[..., Said], shop: str) -> None:
    later = json.loads(json.dumps(SHOP))
    later["source"]["transactions_per_s"] = 500.0
    later["tables"][0]["rows"] = 4000.0
    later["tables"][0]["columns"][1]["type"] = "character varying(9)"
    later["tables"][0]["indexes"] = []
    later["statements"][0] |= {"calls_per_s": 500.0, "ms": 0.021}
    later["statements"].append({**SHOP["statements"][0], "text": "select 1", "parameters": []})
    Path("later.pgdyno").write_text(json.dumps(later))
    said = pgdyno("capture", "diff", shop, "later.pgdyno")
    assert said.status == 0, said.err
    assert said.out == snapshot("""\
transactions: 250/s before and 500/s after, 2.00x
1 statement of both, 1 new and 0 gone; 1 table of both, 0 new and 0 gone
new: select 1 (250/s, 0.02 ms a call)
differs: public.orders
  rows: 1,000 before and 4,000 after, 4.00x
  new: column state character varying(9)
  gone: column state text
  gone: index USING btree (state)
""")
    back = json.loads(pgdyno("capture", "diff", "later.pgdyno", shop, "--format=json").out)
    assert [each["text"] for each in back["gone_statements"]] == ["select 1"]
    same = pgdyno("capture", "diff", shop, shop)
    assert same.out == snapshot("""\
transactions: 250/s before and 250/s after, 1.00x
1 statement of both, 0 new and 0 gone; 1 table of both, 0 new and 0 gone
""")


def test_the_difference_of_what_is_around_the_statements(pgdyno: Callable[..., Said]) -> None:
    scans = [{"index": "state", "per_s": 90.0}, {"per_s": 10.0}]
    both = [{**SHOP["statements"][0], "text": text} for text in ("select 1", "select 2")]
    first, second = (
        {"sessions": sessions, "busy_sessions": 1.0, "per_s": per_s}
        for sessions, per_s in ((5, [50.0, 0.0]), (4, [0.0, 200.0]))
    )
    before = {
        **SHOP,
        "source": {**SHOP["source"], "cpu_ms": 0.2, "waits": {"cpu": 0.7, "row": 0.3}}
        | {"findings": [{"id": "row-locks", "severity": "limit"}]},
        "tables": [{**SHOP["tables"][0], "scans": scans}],
        "statements": [{**each, "parameters": []} for each in both],
        "transactions": [{"per_s": 125.0, "steps": [{"statement": each}]} for each in (0, 1)],
        "applications": [first, second],
    }
    third = {"sessions": 1, "busy_sessions": 0.5, "per_s": [0.0, 0.0, 3.0]}
    after = {
        **before,
        "source": {**SHOP["source"], "cpu_ms": 0.3, "waits": {"cpu": 0.9, "row": 0.1}}
        | {"findings": [{"id": "few-clients", "severity": "minor"}], "sessions": 8},
        "tables": [{**SHOP["tables"][0], "scans": [{"per_s": 400.0}]}],
        "statements": [*before["statements"], {**both[0], "text": "select 3", "parameters": []}],
        "transactions": [*before["transactions"], {"per_s": 3.0, "steps": [{"statement": 2}]}],
        # The second of the file before has the most sessions now.
        "applications": [
            {"sessions": 6, "busy_sessions": 1.0, "per_s": [0.0, 200.0, 0.0]},
            {**first, "per_s": [50.0, 0.0, 0.0]},
            third,
        ],
        "settings": {"work_mem": "9MB", "fsync": "off"},
    }
    for name, capture in (("a", before), ("b", after)):
        Path(f"{name}.pgdyno").write_text(json.dumps(capture))
    said = pgdyno("capture", "diff", "a.pgdyno", "b.pgdyno")
    assert said.status == 0, said.err
    assert said.out == snapshot("""\
transactions: 250/s before and 250/s after, 1.00x
sessions: 2 before and 8 after, 4.00x
CPU of a transaction: 0.2 ms before and 0.3 ms after, 1.50x
sessions at work, CPU: 70 % before and 90 % after, 1.29x
sessions at work, row locks: 30 % before and 10 % after, 0.33x
new finding: few-clients
gone finding: row-locks
setting: enable_gone: off before and the default after
setting: fsync: the default before and off after
setting: work_mem: 7MB before and 9MB after
new application: 1 session, 3/s
differs: application 1
  sessions: 4 before and 6 after, 1.50x
2 statements of both, 1 new and 0 gone; 1 table of both, 0 new and 0 gone
new: select 3 (250/s, 0.02 ms a call)
differs: public.orders
  scans by the index on state: 90 % before and 0 % after, 0x
  scans of the whole table: 10 % before and 100 % after, 10.0x
""")
    same = pgdyno("capture", "diff", "b.pgdyno", "b.pgdyno")
    assert len(same.out.splitlines()) == 2


def test_differences_that_do_not_matter_are_counted(pgdyno: Callable[..., Said]) -> None:
    heavy = {**SHOP["statements"][0], "parameters": []}
    light = [
        {**heavy, "text": f"select {number} from orders", "calls_per_s": 1.0, "ms": 0.01}
        for number in range(5)
    ]
    rare = [{**heavy, "text": f"select 'x{name}'", "calls_per_s": 0.2} for name in "ab"]
    scans = [{"index": "id", "per_s": 0.1}]
    for name, statements, times, table in (
        ("a", [heavy, *light, rare[0]], 1, scans),
        ("b", [heavy, *light, rare[1]], 2, [{"per_s": 0.1}]),
    ):
        capture = {
            **SHOP,
            "statements": [{**each, "ms": each["ms"] * times} for each in statements],
            "tables": [{**SHOP["tables"][0], "scans": table}],
        }
        Path(f"{name}.pgdyno").write_text(json.dumps(capture))
    said = pgdyno("capture", "diff", "a.pgdyno", "b.pgdyno")
    assert said.status == 0, said.err
    assert said.out == snapshot("""\
transactions: 250/s before and 250/s after, 1.00x
6 statements of both, 0 new and 0 gone; 1 table of both, 0 new and 0 gone
differs: select state from orders where id = $1
  time of a call: 0.02 ms before and 0.04 ms after, 2.00x
5 more statements differ, with less than 1 % of the time, or of the WAL, each
2 statements of one alone executed fewer than 20 times, and not listed: the other may have missed them
""")


def test_the_course(pgdyno: Callable[..., Said], shop: str) -> None:
    rates = (200.0, 300.0, 250.0, 240.0)
    course = [
        {"seconds": 10.0, "transactions_per_s": rate, "sessions": 2.0, "busy_sessions": rate / 200}
        for rate in rates
    ]
    Path("course.pgdyno").write_text(json.dumps({**SHOP, "course": course}))
    shown = pgdyno("capture", "show", "course.pgdyno").out.splitlines()
    assert shown[2:6] == snapshot(
        [
            "course, in 4 intervals of 10 s:",
            "  transactions: lowest 200/s after 10 s, median 245/s, highest 300/s after 20 s",
            "  sessions: lowest 2 after 10 s, median 2, highest 2 after 10 s",
            "  within a transaction: lowest 1 after 10 s, median 1.2, highest 1.5 after 20 s",
        ]
    )
    other = [{**each, "transactions_per_s": 250.0} for each in course]
    Path("even.pgdyno").write_text(json.dumps({**SHOP, "course": other}))
    said = pgdyno("capture", "diff", "course.pgdyno", "even.pgdyno").out.splitlines()
    assert said[1:3] == snapshot(
        [
            "lowest rate of an interval: 200/s before and 250/s after, 1.25x",
            "highest rate of an interval: 300/s before and 250/s after, 0.83x",
        ]
    )
    assert pgdyno("capture", "diff", shop, "even.pgdyno").out.splitlines()[2:] == []


def test_it_runs_at_any_scale(pgdyno: Callable[..., Said], shop: str) -> None:
    said = pgdyno("run", shop, "-s", "3", "-t", "20", "-o", "shop.db")
    assert said.status == 0, said.err
    assert "note: tables of temporary sessions are left out" in said.err
    assert "settings of the source that the clone cannot have: enable_gone" in said.err
    assert "2 clients" in said.out
    written = pgdyno("import", shop, "-o", "to")
    assert written.status == 0, written.err
    assert sorted(path.name for path in Path("to").iterdir()) == [
        *("shop-1.sql", "shop-setup.sql", "shop.toml"),
    ]
    assert 'work_mem = "7MB"' in Path("to/shop.toml").read_text()
    assert pgdyno("run", "to/shop.toml", "-t", "5", "-o", "again.db").status == 0


def test_short_texts_are_texts_in_the_simple_protocol(pgdyno: Callable[..., Said]) -> None:
    words = [
        {"name": name, "type": kind, "base": base, "width_bytes": 7, "not_null": True}
        for name, kind, base in (
            ("one", "text", "text"),
            ("two", "character varying(9)", "varchar"),
            ("three", "character(9)", "bpchar"),
        )
    ]
    names = [each["name"] for each in words]
    table = {"schema": "public", "name": "words", "rows": 100.0, "pages": 1, "columns": words}
    table["keys"] = [[each] for each in names]
    parameters = [
        {"type": kind, "use": "compared", "table": "public.words", "column": name}
        for kind, name in zip(("text", "text", "character"), names, strict=True)
    ]
    parameters.append(parameters[0])
    text = "select one = $1 and two = $2 and three = $3 and one in ($4 /*, ... */) from words"
    statement = {**SHOP["statements"][0], "text": text, "parameters": parameters}
    source = {**SHOP["source"], "is_simple": True}
    simple = {**SHOP, "source": source, "tables": [table], "statements": [statement]}
    Path("simple.pgdyno").write_text(json.dumps(simple))
    said = pgdyno("run", "simple.pgdyno", "-t", "20", "-o", "simple.db")
    assert said.status == 0, said.err
    with RunFile(Path("simple.db")) as run:
        assert (run.ledger().done, run.ledger().failed) == (2 * 20, 0)


def test_a_part_of_the_rows(pgdyno: Callable[..., Said], shop: str) -> None:
    count = {**SHOP["statements"][0], "text": "select 1 / (count(*) - 900) from orders"}
    Path("count.pgdyno").write_text(
        json.dumps({**SHOP, "statements": [{**count, "parameters": []}]})
    )
    said = pgdyno("run", "count.pgdyno", "-s", "0.9", "-t", "2", "--max-failures", "100%")
    assert said.code == "nothing-succeeds"
    assert "division by zero" in said.err
    refused = pgdyno("run", "tpcb-like", "-s", "0.5", "-t", "2")
    assert refused.status == 1
    assert "-s: expected an integer, not 0.5" in refused.err
    for scale in ("0", "-1", "x", "nan"):
        assert "is not a scale" in pgdyno("run", shop, "-s", scale).err


def test_more_rows_than_the_disk_has_room_for_are_refused(pgdyno: Callable[..., Said]) -> None:
    tables = [{**SHOP["tables"][0], "rows": 1e13}]
    Path("large.pgdyno").write_text(json.dumps({**SHOP, "tables": tables}))
    said = pgdyno("run", "large.pgdyno", "-t", "2")
    assert (said.status, said.code) == (1, "no-space")
    assert "the rows of large-setup.sql need about" in said.err
    assert "-s 0.01" in said.err


def test_a_statement_that_is_refused_fails_its_transactions_alone(
    pgdyno: Callable[..., Said],
) -> None:
    good = SHOP["statements"][0]
    texts = ("select gone from orders where id = $1", "select 1 / (id - id) from orders")
    bad = [{**good, "text": text} for text in texts]
    steps = [{"per_s": 50.0, "steps": [{"statement": number}]} for number in range(3)]
    capture = {**SHOP, "statements": [good, *bad], "transactions": steps}
    Path("bad.pgdyno").write_text(json.dumps(capture))
    words = ("bad.pgdyno", "-t", "30", "--max-failures", "100%", "--format", "json")
    said = pgdyno("run", *words, "-o", "bad.db")
    assert said.status == 0, said.err
    assert "the server refuses statements" in said.err
    assert 'column "gone" does not exist' in said.err
    with RunFile(Path("bad.db")) as run:
        ledger = run.ledger()
    assert ledger.done > 0
    assert ledger.failed > 0
    assert ledger.done + ledger.failed == 2 * 30
    assert pgdyno("import", "bad.pgdyno", "-o", "to").status == 0
    assert 'refused = "fail"' in Path("to/bad.toml").read_text()


def test_how_far_the_clone_is_alike(pgdyno: Callable[..., Said], shop: str) -> None:
    # Of three commits one has a statement, which is what the clone does.
    source = {**SHOP["source"], "transactions_per_s": 750.0, "cpu_ms": 0.1}
    Path("more.pgdyno").write_text(json.dumps({**SHOP, "source": source}))
    said = pgdyno("capture", "alike", "more.pgdyno", "-T", "1", "-c", "3", "--format=json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["done"] > 0
    assert found["failed"] == 0
    compared = {(each["name"], each["of"]): each for each in found["compared"]}
    rows = compared["rows of a call", SHOP["statements"][0]["text"]]
    assert rows["source"] == rows["clone"] == rows["ratio"] == 1.0
    assert (rows["kind"], rows["verdict"]) == ("data", "alike")
    # Three clients do more than the two sessions of the source.
    assert compared["transactions", ""]["verdict"] == "unknown"
    assert compared["statements", ""]["verdict"] == "unknown"
    assert compared["transactions", ""]["source"] == 250.0
    assert compared["CPU of a transaction", ""]["source"] == pytest.approx(0.3)
    verdicts = [each["verdict"] for each in found["compared"]]
    assert found["unlike"] == verdicts.count("unlike")
    assert found["judged"] == len(verdicts) - verdicts.count("unknown")


REFUSED = {
    ("capture", "postgresql://127.0.0.1:1/x", "-o", "shop.pgdyno/x.pgdyno"): "cannot be written",
    ("capture", "postgresql://127.0.0.1:1/x"): "a capture needs a file",
    ("capture", "postgresql://127.0.0.1:1/x", "-o", "x.db"): '"x.db" does not end with .pgdyno',
    ("capture", "postgresql://127.0.0.1:1/x", "-o", "shop.pgdyno"): "exists already",
    ("capture", "tpcb-like", "-o", "x.pgdyno"): "makes no load",
    ("capture", "postgresql://127.0.0.1:1/x", "-o", "x.pgdyno"): "127.0.0.1:1",
    ("capture", "postgresql://127.0.0.1:1/x", "-o", "x.pgdyno", "--log", "shop.pgdyno"): "neither",
    ("capture", "postgresql://127.0.0.1:1/x", "-o", "x.pgdyno", "--log", "none"): "cannot be read",
    ("capture", "diff", "shop.pgdyno", "cut.pgdyno"): "cut.pgdyno is not a capture of pgdyno",
    ("capture", "alike", "cut.pgdyno"): "cut.pgdyno is not a capture of pgdyno",
    ("capture", "show", "none.pgdyno"): "none.pgdyno cannot be read",
    ("capture", "show", "cut.pgdyno"): "not a capture of pgdyno, or not all of one",
    ("run", "cut.pgdyno", "-T1"): "not a capture of pgdyno, or not all of one",
}


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_wrong_use_is_refused(number: int, pgdyno: Callable[..., Said], shop: str) -> None:
    arguments, why = list(REFUSED.items())[number]
    Path("cut.pgdyno").write_text(Path(shop).read_text()[:300])
    said = pgdyno(*arguments)
    assert said.status == 1
    assert why in said.err
    assert not Path("x.pgdyno").exists()
