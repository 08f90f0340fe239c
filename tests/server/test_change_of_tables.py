"""Tables without WAL and data checksums, changed between two slices and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from patience import wait_until
from pgdyno.conduct import Session, Silent, open_session
from pgdyno.errors import SetupError, UsageError
from pgdyno.record import RunFile
from pgdyno.server import Cluster, connect_plain
from pgdyno.spec import Change, spec_from_fields
from pgdyno.workload import make_logged, make_unlogged

KINDS = """
    select relname, relpersistence::text from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace order by relname
"""
LINKED = """
    create table parent (id int primary key, above int references parent);
    create table child (id int primary key, parent int references parent);
    create table grandchild (child int references child, parent int references parent);
    create unlogged table before (id int);
"""


@contextmanager
def session_of(path: Path, **fields: object) -> Iterator[Session]:
    spec = spec_from_fields({"clients": [{"count": 2, "think": "20ms"}], **fields})
    with open_session(spec, run=path, command="compare", spec_text="", watcher=Silent()) as session:
        session.start_load()
        yield session
        session.stop_load()


def slice_with_work(session: Session) -> None:
    """Short slices until something was done in one: a busy machine may do nothing in the first."""

    def one_has_work() -> bool:
        slice_id = session.slice(0.2, kind="run")
        return bool(session.reader().ledger([slice_id]).done)

    wait_until(one_has_work, "something is done")


def kinds(connection: psycopg.Connection) -> dict[str, str]:
    return dict(connection.execute(KINDS.encode()).fetchall())


def test_tables_that_refer_to_each_other_are_changed_in_their_order(pg18: Cluster) -> None:
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute("create schema linked")
        connection.execute("set search_path = linked")
        try:
            connection.execute(LINKED.encode())
            made = make_unlogged(connection)
            said = connection.execute(
                "select relname::text, relpersistence::text from pg_class"
                " where relnamespace = 'linked'::regnamespace and relkind = 'r'"
            ).fetchall()
            assert {kind for _, kind in said} == {"u"}
            make_logged(connection, made)
            said = connection.execute(
                "select relname::text, relpersistence::text from pg_class"
                " where relnamespace = 'linked'::regnamespace and relkind = 'r'"
            ).fetchall()
            assert dict(said) == {"parent": "p", "child": "p", "grandchild": "p", "before": "u"}
        finally:
            connection.execute("drop schema linked cascade")


def test_tables_in_a_circle_are_refused_by_name(pg18: Cluster) -> None:
    with psycopg.connect(**pg18.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute(
            "create table hen (id int primary key, egg int);"
            "create table egg (id int primary key, hen int references hen);"
            "alter table hen add foreign key (egg) references egg"
        )
        try:
            with pytest.raises(SetupError, match=r"public\.egg and public\.hen refer"):
                make_unlogged(connection)
        finally:
            connection.execute("drop table hen, egg cascade")


@pytest.mark.alike
@pytest.mark.parametrize("major", [18, 15])
def test_the_sides_of_a_trial_differ_in_logging_and_checksums(
    installation_of: Callable[[int], object], tmp_path: Path, major: int
) -> None:
    installation_of(major)
    with session_of(tmp_path / "run.db", server={"version": major}) as session:
        with connect_plain(session.target.conninfo) as connection:
            first = kinds(connection)
            at_first = session.target.checksums
        other = "false" if at_first else "true"
        change = Change(spec={"workload.unlogged": "true", "server.checksums": other})
        for change_now, kind, checksums in (
            (change, "u", not at_first),
            (Change(), "p", at_first),
            (Change(spec={"workload.unlogged": "true"}), "u", at_first),
            (Change(settings={"commit_delay": "10"}), "p", at_first),
        ):
            session.apply(change_now, warm_up_s_max=0.1)
            with connect_plain(session.target.conninfo) as connection:
                assert set(kinds(connection).values()) == {kind}
                assert kinds(connection).keys() == first.keys()
                row = connection.execute("show data_checksums").fetchone()
            assert row == ("on" if checksums else "off",)
            assert session.target.checksums == checksums
            slice_with_work(session)
    with RunFile(tmp_path / "run.db") as recorded:
        assert recorded.ledger().balanced


def test_a_spec_of_unlogged_tables(tmp_path: Path) -> None:
    fields = {"workload": {"unlogged": True}}
    with (
        session_of(tmp_path / "run.db", **fields) as session,
        connect_plain(session.target.conninfo) as connection,
    ):
        assert set(kinds(connection).values()) == {"u"}
        session.apply(Change(spec={"workload.unlogged": "false"}))
        assert set(kinds(connection).values()) == {"p"}


def test_tables_of_a_users_server_stay_as_they_are() -> None:
    with pytest.raises(
        UsageError,
        match="tables of an existing server are changed by compare --sql and --undo-sql only, and"
        " pgdyno snapshot save NAME --from CONNINFO copies them into one that pgdyno starts",
    ):
        spec_from_fields(
            {
                "server": {"kind": "existing", "conninfo": "host=here"},
                "workload": {"unlogged": True},
            }
        )
