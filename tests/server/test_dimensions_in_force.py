"""Dimensions put in force on real servers, and the example of CONTRIBUTING.md."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from examples import EXAMPLES
from inline_snapshot import snapshot

from pgdyno.conduct import Session, Silent, open_session
from pgdyno.dimension import change_of, dimensions, kinds, spec_with, title_of
from pgdyno.dimension._dimension import dimensions as listed
from pgdyno.errors import SetupError
from pgdyno.record import RunFile, SliceKind
from pgdyno.server import connect_plain
from pgdyno.spec import Change, Spec, spec_from_fields


@pytest.fixture
def one_more_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of dimensions with a file of one that is not there otherwise."""
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "statistics.py").write_text(EXAMPLES["dimension/kinds/statistics.py"])
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(folder)])
    importlib.invalidate_caches()
    listed.cache_clear()
    yield
    listed.cache_clear()
    sys.modules.pop("pgdyno.dimension.kinds.statistics", None)


def spec_of(**fields: Any) -> Spec:
    groups = [{"name": "web", "count": 4, "think": "20ms"}]
    return spec_from_fields({"workload": {"scale": 1}, "clients": groups, **fields})


def session_of(path: Path, **fields: Any) -> Any:
    return open_session(
        spec_of(**fields), run=path, command="compare", spec_text="", watcher=Silent()
    )


def answer(session: Session, query: str) -> Any:
    with connect_plain(session.target.conninfo) as connection:
        return connection.execute(query.encode()).fetchall()


def statistics(session: Session) -> list[str]:
    found = answer(session, "select stxname::text from pg_statistic_ext order by stxname")
    return [name for (name,) in found]


@pytest.mark.usefixtures("one_more_file")
def test_a_file_more_is_a_dimension_more(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    spec = spec_of()
    change = change_of(
        {"statistics.pgbench_accounts": "bid, abalance", "work_mem": "8MB"}, spec=spec
    )
    assert change == Change(
        settings={"work_mem": "8MB"}, spec={"statistics.pgbench_accounts": "bid, abalance"}
    )
    assert title_of(change, spec) == snapshot(
        "work_mem = 8MB, statistics on bid, abalance of pgbench_accounts"
    )
    assert [event.sql for event in spec_with(spec, change).events] == [
        "create statistics pgdyno_pgbench_accounts on bid, abalance from pgbench_accounts"
    ]
    with session_of(tmp_path / "run.db") as session:
        session.provide(change)
        for now, wanted in ((change, ["pgdyno_pgbench_accounts"]), (Change(), [])):
            session.apply(now)
            assert statistics(session) == wanted
            session.slice(0.2, kind="run")
    with RunFile(tmp_path / "run.db") as run:
        assert Change.from_json(run.slices("run")[0].change) == change
        assert run.ledger().balanced


def test_without_the_file_there_is_no_such_dimension() -> None:
    assert "statistics" not in {each.id for each in dimensions()}


def test_table_options_of_the_spec_are_had_again(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    query = "select reloptions from pg_class where relname = 'pgbench_tellers'"
    mine = {"workload": {"scale": 1, "table_options": {"pgbench_tellers": {"fillfactor": 70}}}}
    other = {"fillfactor": "50", "autovacuum_enabled": "false"}
    with session_of(tmp_path / "run.db", **mine) as session:
        assert answer(session, query) == [(["fillfactor=70"],)]
        session.apply(Change(table_options={"pgbench_tellers": other}))
        (options,) = answer(session, query)[0]
        assert sorted(options) == ["autovacuum_enabled=false", "fillfactor=50"]
        session.apply(Change())
        assert answer(session, query) == [(["fillfactor=70"],)]


def test_an_index_is_there_for_its_side_of_a_trial(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    mine = {"workload": {"scale": 1, "indexes": {"pgbench_tellers": "tbalance"}}}
    query = "select indexdef from pg_indexes where indexname ~ '^pgdyno_' order by indexname"
    kept = "CREATE INDEX pgdyno_pgbench_tellers_tbalance ON public.pgbench_tellers"
    with session_of(tmp_path / "run.db", **mine) as session:
        assert answer(session, query) == [(f"{kept} USING btree (tbalance)",)]
        session.apply(Change(indexes={"public.pgbench_accounts": "bid, abalance"}))
        accounts, tellers = (text for (text,) in answer(session, query))
        assert accounts.endswith("ON public.pgbench_accounts USING btree (bid, abalance)")
        assert tellers.startswith(kept)
        session.slice(0.2, kind="run")
        session.apply(Change(indexes={"pgbench_tellers": "bid; using btree (abs(tbalance))"}))
        keys = [text.partition(" USING btree ")[2] for (text,) in answer(session, query)]
        assert keys == ["(abs(tbalance))", "(bid)", "(tbalance)"]
        session.apply(Change(indexes={"pgbench_tellers": "bid"}))
        assert len(answer(session, query)) == 2
        session.apply(Change())
        assert answer(session, query) == [(f"{kept} USING btree (tbalance)",)]


def test_a_table_that_is_not_there_has_no_options(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    mine = {"workload": {"scale": 1, "table_options": {"nobody": {"fillfactor": 70}}}}
    with (
        pytest.raises(SetupError, match=r'"nobody".*relation "nobody" does not exist'),
        session_of(tmp_path / "run.db", **mine),
    ):
        pass


def test_what_a_key_says_of_clients_and_pools_stays_when_the_load_begins(
    installation_of: Callable[[int], object], tmp_path: Path
) -> None:
    installation_of(18)
    with session_of(tmp_path / "run.db") as session:
        session.apply(Change(spec={"clients.web.count": "2"}))
        session.slice(0.5, kind=SliceKind.BASELINE)
        session.apply(Change(spec={"clients.web.pool.max": "1"}))
        session.slice(0.5, kind=SliceKind.TRIAL)
    with RunFile(tmp_path / "run.db") as run:
        fewer, pooled = (run.intervals([piece.id]) for piece in run.slices())
    assert {each.clients for each in fewer} == {2}
    assert {(each.clients, each.connections) for each in pooled} == {(4, 1)}
