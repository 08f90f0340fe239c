"""Connections that a proxy between the clients and the server closes, and those that the server
ends itself."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from found_meanwhile import found_meanwhile

from pgdyno.conduct import Session
from pgdyno.diagnose import Finding
from pgdyno.server import connect_plain
from pgdyno.spec import Spec, spec_from_fields

pytestmark = pytest.mark.server

SLEEP = "select pg_sleep(3);\n"
PAUSE = "begin;\n\\sleep 3 s\nend;\n"
NAME = "time without a byte before the end, p50"


def spec_of(folder: Path, script: str, limits: dict[str, str]) -> Spec:
    path = folder / "script.sql"
    path.write_text(script)
    return spec_from_fields(
        {
            "name": "cut",
            "pooler": {"kind": "haproxy", "settings": limits},
            "workload": {"script": [{"file": str(path)}]},
            "clients": [{"name": "web", "count": 4}],
            "load": {"hold": "8s", "max_failures": "100%"},
        }
    )


def finding_of(spec: Spec, path: Path, during: Callable[[Session], None] | None = None) -> Finding:
    return found_meanwhile(spec, path, during)["connections-cut"]


def figures(finding: Finding) -> dict[str, Any]:
    return {each.name: each.value for each in finding.evidence}


@pytest.mark.parametrize("name", ["timeout client", "timeout server"])
@pytest.mark.parametrize("script", [SLEEP, PAUSE])
def test_a_proxys_limit_is_named(tmp_path: Path, script: str, name: str) -> None:
    finding = finding_of(spec_of(tmp_path, script, {name: "1s"}), tmp_path / "run.db")
    assert finding.status == "found"
    assert f"HAProxy's {name} = 1s" in finding.advice
    # By this limit HAProxy ends one direction only: the answer comes, and then the connection ends.
    if (script, name) != (SLEEP, "timeout client"):
        assert figures(finding)[NAME] == pytest.approx(1000, rel=0.2)


def test_a_proxy_without_such_a_limit_cuts_nothing(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "select pg_sleep(1.5);\n", {"timeout client": "1h"})
    finding = finding_of(spec, tmp_path / "run.db")
    assert finding.status == "cleared"
    assert figures(finding)["connections closed without a word"] == 0


def backends(session: Session) -> list[int]:
    with connect_plain(session.target.conninfo) as connection:
        rows = connection.execute(
            "select pid from pg_stat_activity where query like 'select pg_sleep%'"
        ).fetchall()
    return [int(pid) for (pid,) in rows]


def terminate(session: Session) -> None:
    for _ in range(3):
        session_pids = backends(session)
        with connect_plain(session.target.conninfo) as connection:
            for pid in session_pids:
                connection.execute("select pg_terminate_backend(%s)", [pid])
        threading.Event().wait(1)


def crash(session: Session) -> None:
    threading.Event().wait(2)
    for pid in backends(session)[:1]:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("during", [terminate, crash])
def test_what_the_server_ends_is_not_said_of_the_proxy(
    tmp_path: Path, during: Callable[[Session], None]
) -> None:
    spec = spec_of(tmp_path, "select pg_sleep(0.2);\n", {"timeout client": "1h"})
    path = tmp_path / "run.db"
    try:
        finding = finding_of(spec, path, during)
    except psycopg.Error:
        pytest.skip("the server did not answer after its crash")
    assert finding.status != "found"
