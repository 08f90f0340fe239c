"""The built-in workload entity-resolution: its tables, its statements, and what holds in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pgdyno._engine import check_script
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.dimension import change_of
from pgdyno.drill._workloads import checked_after
from pgdyno.errors import SetupError, UsageError
from pgdyno.investigate.run import run_spec
from pgdyno.record import RunFile
from pgdyno.report import write_html
from pgdyno.report.terminal._run_summary import summary_lines
from pgdyno.results.run import RunResult
from pgdyno.server import Cluster, ConnInfo, connect_plain
from pgdyno.spec import Change, ScriptPart, spec_from_fields
from pgdyno.spec.workload import WorkloadSpec
from pgdyno.trial.trust import distrust
from pgdyno.workload import Tables, consistency, load_mix, prepare
from pgdyno.workload._entities import FILLFACTORS, PARTITIONED, SEQUENCES
from pgdyno.workload._found import ENTITY_COLUMNS
from pgdyno.workload.builtin import builtin_texts

if TYPE_CHECKING:
    from pgdyno.server.connecting.control import Control

pytestmark = [pytest.mark.server, pytest.mark.alike]


def silent(what: str, done: int, total: int) -> None:
    """Looks away."""


@pytest.fixture
def database(pg: Cluster) -> Iterator[ConnInfo]:
    """The database pgdyno, without the tables of entity-resolution before and after."""
    drop = (
        f"drop table if exists {', '.join(ENTITY_COLUMNS)};"
        f" drop sequence if exists {', '.join(SEQUENCES)}"
    ).encode()
    with connect_plain(pg.conninfo) as conn:
        conn.execute(drop)
        yield replace(pg.conninfo, database_named=False)
        conn.execute(drop)


def _loaded(database: ConnInfo, path: Path, workload: dict[str, Any], **load: Any) -> RunResult:
    fields = {
        "server": {"kind": "existing", "conninfo": database.uri_without_password},
        "workload": {"script": "entity-resolution", "scale": 1, **workload},
        "clients": [{"count": 4}],
        "load": {"hold": "5min", "transactions": 20, **load},
    }
    with open_session(
        spec_from_fields(fields), run=path, command="run", spec_text="", watcher=Silent()
    ) as session:
        return run_spec(session)


def test_a_record_has_about_85_statements() -> None:
    text = builtin_texts()["entity-resolution"]
    statements = check_script(text, "entity-resolution")["statements"]
    begins = [statement.split()[0] for statement in statements]
    assert len(statements) == 92
    assert {*begins} == {"select", "insert", "update", "delete"}
    assert not {"begin", "commit"} & {*begins}


@pytest.mark.parametrize(
    ("partitions", "protocol"),
    [
        (4, "prepared"),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in product((0, 4), ("simple", "extended", "prepared"))
            if each != (4, "prepared")
        ),
    ],
)
def test_records_are_resolved_and_the_tables_agree(
    database: ConnInfo, tmp_path: Path, partitions: int, protocol: str
) -> None:
    path = tmp_path / "run.db"
    options = {"init": {"partitions": partitions}, "variables": {"extras": 1}}
    result = _loaded(database, path, options, protocol=protocol)
    assert (result.ledger.done, result.ledger.failed) == (80, 0)
    found = result.entity_resolution
    assert found is not None
    assert (found.records, found.records_in_tables, found.unfinished) == (80, 80, 0)
    assert (found.consistent, found.broken) == (True, {})
    assert found.statements_per_record is not None
    assert 80 <= found.statements_per_record <= 90
    with connect_plain(database) as conn:
        features = conn.execute("select features from er_observed").fetchall()
        assert all(11 <= len(row[0]) <= 14 and row[0] == sorted(row[0]) for row in features)
        assert conn.execute("select count(*) from er_record_hashes").fetchone() == (80,)
        children = conn.execute("select count(*) from pg_inherits where inhparent = any(%s"
                                "::regclass[])", [list(PARTITIONED)]).fetchone()  # fmt: skip
        assert children == (partitions * len(PARTITIONED),)
    with RunFile(path) as run:
        assert not any("do not agree" in reason for reason in distrust(run, []))
        summary = " ".join(line.text for line in summary_lines(run, 200))
        page = write_html(run, tmp_path / "page.html").read_text()
    for text in (summary, page):
        assert "finished record is in exactly one entity" in text.replace("\u00a0", " ")
        assert "statements per record" in text.replace("\u00a0", " ")


_DAMAGE = {
    "delete from er_records where record_id = (select min(record_id) from er_records)":
        "observed entities without a record",
    "delete from er_entity_records where record_id = (select min(record_id) from er_records)":
        "records in no entity",
    "update er_entities set records = records + 1":
        "entities with a wrong count of records",
    "update er_feature_stats set records = records + 1000":
        "features counted more often than used",
    "delete from er_features where feature_id = (select min(feature_id) from er_feature_keys)":
        "keys of unknown features or entities",
    "alter table er_entity_records drop constraint er_entity_records_pkey; insert into"
    " er_entity_records select record_id, entity_id, 2 from er_entity_records limit 1":
        "records in two entities",
    "delete from er_entities where entity_id = (select min(entity_id) from er_entity_records)":
        "records in unknown entities",
}  # fmt: skip
"""Damage and the rule that it breaks."""


def test_what_does_not_agree_is_found(database: ConnInfo, tmp_path: Path) -> None:
    _loaded(database, tmp_path / "run.db", {})
    with connect_plain(database) as conn:
        assert not _broken(conn)
        # What is cut off between two statements is no damage.
        conn.execute("update er_observed set features = null where record_id % 7 = 0")
        cut_off = consistency(conn, Tables.ENTITIES)
        assert not any(cut_off.broken.values())
        assert cut_off.counts["unfinished"] > 0
        for damage, rule in _DAMAGE.items():
            with conn.transaction(force_rollback=True):
                conn.execute(damage.encode())
                assert rule in _broken(conn), damage
    # A load on tables that do not agree is not trusted.
    with connect_plain(database) as conn:
        conn.execute("delete from er_entity_records")
    path = tmp_path / "broken.db"
    result = _loaded(database, path, {})
    assert result.entity_resolution is not None
    assert not result.entity_resolution.consistent
    assert any("do not agree after the load" in reason for reason in result.distrust)


def test_tables_are_made_again_only_if_they_are_to_differ(database: ConnInfo) -> None:
    workloads = [load_mix("entity-resolution")]
    assert workloads[0].tables is Tables.ENTITIES

    def made(**options: Any) -> str | None:
        return prepare(database, workloads, WorkloadSpec.model_validate(options), silent).tables

    assert made(scale=2) == "made"
    assert made() == "kept"
    assert prepare(database, workloads, WorkloadSpec(), silent).scale == 2
    with connect_plain(database) as conn:

        def fillfactors() -> dict[str, str]:
            rows = conn.execute(
                "select relname, reloptions[1] from pg_class where relname ~ '^er_' and relkind ="
                " 'r' and reloptions is not null"
            )
            return dict(rows.fetchall())

        assert fillfactors() == {name: f"fillfactor={f}" for name, f in FILLFACTORS.items()}
        assert made(init={"partitions": 8}) == "made"
        assert fillfactors()["er_feature_keys_7"] == "fillfactor=90"
        assert made(init={"partitions": 8}) == "kept"
        assert made(init={"fillfactor": 60}) == "made"
        assert {*fillfactors().values()} == {"fillfactor=60"}


def _broken(conn: Control) -> set[str]:
    """Return the rules that do not hold."""
    return {rule for rule, count in consistency(conn, Tables.ENTITIES).broken.items() if count}


def _sizes(session: Session) -> tuple[int, int]:
    """Numbers of partitions, and of records."""
    with connect_plain(session.target.conninfo) as conn:
        assert not _broken(conn)
        row = conn.execute(
            "select (select count(*) from pg_inherits join pg_class c on c.oid = inhrelid"
            " where c.relkind = 'r'), count(*) from public.er_records"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def test_two_sides_can_differ_in_partitions(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    fields = {
        "workload": {"script": "entity-resolution", "scale": 1},
        "clients": [{"count": 2}],
    }
    spec = spec_from_fields(fields)
    change = change_of(keys={"workload.init.partitions": "4"}, spec=spec)
    with open_session(
        spec, run=tmp_path / "run.db", command="compare", spec_text="", watcher=Silent()
    ) as session:
        session.provide(change)
        session.start_load()
        session.apply(change)
        session.interrupt_load()
        partitions, before = _sizes(session)
        assert partitions == 4 * len(PARTITIONED)
        session.prepare(Change())
        assert _sizes(session) == (0, before)
        session.prepare(change)
        assert _sizes(session) == (partitions, before)


def test_partitions_of_others_are_left_alone(database: ConnInfo, tmp_path: Path) -> None:
    fields = {
        "server": {"kind": "existing", "conninfo": database.uri_without_password},
        "workload": {"script": "entity-resolution", "scale": 1},
        "clients": [{"count": 2}],
    }
    change = Change(spec={"workload.init.partitions": "4"})
    with (
        open_session(
            spec_from_fields(fields),
            run=tmp_path / "run.db",
            command="compare",
            spec_text="",
            watcher=Silent(),
        ) as session,
        pytest.raises(SetupError, match="on an existing server"),
    ):
        session.provide(change)
    other = spec_from_fields({"workload": {"script": "mixed"}})
    with pytest.raises(UsageError, match="only with the workload entity-resolution"):
        change_of(keys={"workload.init.partitions": "4"}, spec=other)


def test_a_foreign_table_is_left_alone(database: ConnInfo) -> None:
    with connect_plain(database) as conn:
        conn.execute("create table er_queue (mine int)")
        with pytest.raises(SetupError, match="er_queue in the database pgdyno is a table"):
            prepare(database, [load_mix("entity-resolution")], WorkloadSpec(), silent)
        assert conn.execute("select count(*) from er_queue").fetchone() == (0,)


def test_scripts_are_of_one_kind_of_tables() -> None:
    parts = [ScriptPart(builtin=name) for name in ("business", "entity-resolution")]
    with pytest.raises(UsageError, match="business and scripts on those of entity-resolution"):
        load_mix(parts)


def test_a_drill_checks_only_what_it_knows(database: ConnInfo) -> None:
    prepare(database, [load_mix("entity-resolution")], WorkloadSpec(), silent)
    text = builtin_texts()["entity-resolution"]
    with connect_plain(database) as conn:
        assert checked_after(conn, [text, "select 1"]) == ("entity-resolution",)
        for table in ("er_queue", "shop.er_queue", '"er_queue"', "er_records_3", "er_record_ids"):
            assert checked_after(conn, [text, f"delete from {table}"]) == (), table
        assert checked_after(conn, ["select 1"]) == ()
        conn.execute("alter table er_queue set unlogged")
        assert checked_after(conn, [text]) == ()
