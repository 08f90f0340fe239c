"""A server reads SQL that pgdyno prints as one statement, with each name as a role chose it."""

from __future__ import annotations

import psycopg
import pytest
from check_runs import found, judged
from hostile_names import NAMES, with_names
from test_check_rules import FAULTS

from pgdyno.server import Cluster
from pgdyno.spec.sql_text import literal, on_one_line, quoted

pytestmark = pytest.mark.server
_PARSED = psycopg.pq.ExecStatus.COMMAND_OK


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("name", NAMES)
def test_literals_and_names_are_read_as_chosen(pg: Cluster, name: str, conforming: str) -> None:
    with psycopg.connect(**pg.conninfo.kwargs()) as connection:
        connection.execute(f"set standard_conforming_strings = {conforming}".encode())
        cursor = connection.execute(f"select {literal(name)} as {quoted(name)}".encode())
        assert cursor.fetchone() == (name,)
        assert cursor.description is not None
        assert cursor.description[0].name == name


@pytest.mark.parametrize("name", NAMES)
def test_a_table_quoted_by_the_server_is_found(pg: Cluster, name: str) -> None:
    with psycopg.connect(**pg.conninfo.kwargs()) as connection:
        connection.execute(f"create schema {quoted(name)}".encode())
        connection.execute(f"create table {quoted(name)}.{quoted(name)} ()".encode())
        row = connection.execute("select format('%%I.%%I', %s::text, %s::text)", [name, name])
        (relation,) = row.fetchone() or ("",)
        connection.execute(f"comment on table {on_one_line(relation)} is 'seen'".encode())
        connection.rollback()


@pytest.mark.parametrize("conforming", ["on", "off"])
@pytest.mark.parametrize("name", NAMES)
def test_commands_of_rules_are_one_statement_each(pg: Cluster, name: str, conforming: str) -> None:
    given = [rows for _, _, rows, _ in FAULTS]
    commands = {
        command
        for rows in given
        for fault in found(judged(**with_names(rows, name))).values()
        for command in fault.commands
        if command.split()[0].isupper() and "…" not in command
    }
    assert len(commands) > 20
    with psycopg.connect(**pg.conninfo.kwargs(), autocommit=True) as connection:
        connection.execute(f"set standard_conforming_strings = {conforming}".encode())
        for command in commands:
            answer = connection.pgconn.prepare(b"", command.encode())
            assert answer.status == _PARSED, (command, answer.error_message)
