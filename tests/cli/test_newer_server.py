"""A server that is newer than supported: each command that connects says so, once."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from printed import Said

from pgdyno.server import Cluster
from pgdyno.server.versions import SUPPORTED_MAJORS, major_of, newer_note, plain_version

pytestmark = [pytest.mark.server, pytest.mark.alike]

COMMANDS = (
    "run select-only -s 1 -c 1 -t 1 -d",
    "check -T 2 --fail-on never",
    "vacuum-plan -T 1",
    "govern --once",
    "cleanup --dry-run",
    "server sweep",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("newest", [17, 18])
def test_the_note_is_said_once_by_every_command(
    pgdyno: Callable[..., Said],
    pg18: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    newest: int,
) -> None:
    monkeypatch.setattr("pgdyno.server.versions.SUPPORTED_MAJORS", range(14, newest + 1))
    kwargs = {**pg18.conninfo.kwargs(), "application_name": None}
    said = pgdyno(*command.split(), psycopg.conninfo.make_conninfo("", **kwargs))
    assert said.err.count("newer than this pgdyno supports") == (newest == 17), said.err


def test_a_version_is_named_as_the_server_says_it() -> None:
    assert plain_version("19rc1 (Debian 19~rc1-1)") == "19rc1"
    assert [major_of(each) for each in ("19rc1", "18.6", "19beta1", "20devel")] == [19, 18, 19, 20]
    assert newer_note(180006) is None
    assert newer_note((SUPPORTED_MAJORS[-1] + 1) * 10_000) is not None
