"""Queues for locks on real servers: each kind is injected, and named for what it is.

Whoever holds the lock sleeps, so that the queues are as long on a busy machine as on an idle one,
and so long that the rest takes less also where ten processes want each core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from signature_runs import carried_out, status

from pgdyno.diagnose import Finding

pytestmark = pytest.mark.server

SETUP = """
create table t (id int primary key, n int not null) with (fillfactor = 50);
insert into t select g, 0 from generate_series(1, 1000) g;
create table parent (id int primary key);
insert into parent values (1);
create table child (id bigint generated always as identity primary key, p int references parent);
"""
HOLD = "select pg_sleep(0.05);\ncommit;\n"
KINDS = {
    "hot-row": f"begin;\nupdate t set n = n + 1 where id = 1;\n{HOLD}",
    "advisory-lock": f"begin;\nselect pg_advisory_xact_lock(42);\n{HOLD}",
    "relation-lock": f"begin;\nlock table t in exclusive mode;\n{HOLD}",
    "idle-in-transaction": (
        "begin;\nupdate t set n = n + 1 where id = 1;\n\\sleep 150 ms\ncommit;\n"
    ),
    # The first client holds every row, the others want one each.
    "batch-update": (
        "\\set id random(1, 1000)\n\\if :client_id = 0\nbegin;\n"
        f"update t set n = n + 1;\nselect pg_sleep(0.3);\n{HOLD}"
        "\\else\nupdate t set n = n + 1 where id = :id;\n\\endif\n"
    ),
    "foreign-key": (
        "\\if :client_id = 0\nbegin;\nselect * from parent where id = 1 for update;\n"
        f"{HOLD}\\else\ninsert into child (p) values (1);\n\\endif\n"
    ),
    "deadlocks": (
        "\\set a random(1, 6)\n\\set b random(1, 6)\nbegin;\n"
        "update t set n = n + 1 where id = :a;\nselect pg_sleep(0.01);\n"
        "update t set n = n + 1 where id = :b;\ncommit;\n"
    ),
}
NAMES = {
    "hot-row": "in public.t",
    "advisory-lock": "select pg_advisory_xact_lock(?)",
    "relation-lock": "a lock on public.t",
    "batch-update": "different rows that one transaction holds in public.t",
    "foreign-key": "rows of public.parent that a foreign key refers to",
}


@pytest.fixture(scope="module")
def injected(
    tmp_path_factory: pytest.TempPathFactory, installation_of: Callable[[int], object]
) -> Callable[[str, int], Mapping[str, Finding]]:
    """Carries a script of ``KINDS`` out on a server of a version."""

    def carry(kind: str, version: int) -> Mapping[str, Finding]:
        installation_of(version)  # skips the test where this machine has none
        folder = tmp_path_factory.mktemp(kind)
        (folder / "setup.sql").write_text(SETUP)
        (folder / "load.sql").write_text(KINDS[kind])
        return carried_out(
            folder,
            script=folder / "load.sql",
            setup=folder / "setup.sql",
            clients=12,
            hold="3s",
            version=version,
            settings={"synchronous_commit": "off", "deadlock_timeout": "300ms"},
        )

    return carry


@pytest.mark.parametrize(
    ("kind", "version"),
    [*((kind, 18) for kind in KINDS), ("batch-update", 15), ("foreign-key", 15)],
)
def test_each_kind_of_queue_is_the_largest_of_the_lock_queues(
    injected: Callable[[str, int], Mapping[str, Finding]], kind: str, version: int
) -> None:
    findings = injected(kind, version)
    finding = findings[kind]
    assert finding.status == "found", status(findings)
    assert NAMES.get(kind, "") in finding.sentence
    assert finding.share == max(findings[other].share for other in KINDS), status(findings)


def test_a_client_that_waits_for_good_has_no_response_time(tmp_path: Path) -> None:
    """The first holds a lock and sleeps, the second waits for it, the others go on."""
    script = tmp_path / "load.sql"
    script.write_text(
        "\\if :client_id = 0\nbegin;\nselect pg_advisory_xact_lock(1);\n\\sleep 600 s\ncommit;\n"
        "\\elif :client_id = 1\nselect pg_advisory_xact_lock(1);\n\\else\nselect 1;\n\\endif\n"
    )
    findings = carried_out(tmp_path, script=script)
    assert findings["unanswered-clients"].status == "found", status(findings)
    assert "1 of 8 clients got no answer" in findings["unanswered-clients"].sentence
