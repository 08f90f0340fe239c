"""Queues for locks on real servers: each kind is injected, and named for what it is.

Whoever holds the lock sleeps, so that the queues are as long on a busy machine as on an idle one,
and so long that the rest takes less also where ten processes want each core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
    largest = max(findings[other].share or 0.0 for other in KINDS)
    assert finding.share == largest, status(findings)


# A page of t takes 0.4 s, so that a vacuum of it lasts longer than the load.
PAGES = SETUP.replace("(1, 1000)", "(1, 20000)")
SLOW_VACUUM = {"vacuum_cost_delay": "100ms", "vacuum_cost_limit": "1"}
VACUUM = {"at": "6s", "sql": "vacuum (disable_page_skipping) t"}
ALTER = {"at": "7s", "sql": "alter table t add column m int"}
OPEN = {"at": "0s", "sql": "begin; select count(*) from t; select pg_sleep(600); commit"}
WRITES = "\\set id random(1, 1000)\nupdate t set n = n + 1 where id = :id;\n\\sleep 20 ms\n"


def disturbed(folder: Path, version: int, *events: dict[str, str]) -> Mapping[str, Finding]:
    """Findings on updates of t during which something else wants that table."""
    setup, script = folder / "setup.sql", folder / "load.sql"
    setup.write_text(PAGES)
    script.write_text(WRITES)
    return carried_out(
        folder,
        script=script,
        setup=setup,
        hold="12s",
        version=version,
        settings=SLOW_VACUUM | {"autovacuum": "off"},
        events=list(events),
    )


def values(finding: Finding) -> dict[str, Any]:
    return {each.name: each.value for each in finding.evidence}


@pytest.mark.parametrize("version", [18, 15])
def test_a_request_that_waits_for_a_vacuum_is_named_and_the_vacuum_is_not_the_load(
    tmp_path: Path, installation_of: Callable[[int], object], version: int
) -> None:
    installation_of(version)
    findings = disturbed(tmp_path, version, VACUUM, ALTER)
    found = findings["relation-lock"]
    assert found.status == "found", status(findings)
    seen = values(found)
    assert seen["statement that waits and is in the way of others"] == ALTER["sql"]
    assert seen["mode that it wants"] == "AccessExclusiveLock"
    assert seen["mode of the lock that is held"] == "ShareUpdateExclusiveLock"
    assert seen["statement of the lock's holder"] == VACUUM["sql"]
    assert seen["sessions behind a request, not a lock"] > 1
    assert "lock_timeout" in found.advice
    assert findings["vacuum-load"].status == "skipped", status(findings)


def test_a_vacuum_without_a_request_behind_it_is_no_queue(tmp_path: Path) -> None:
    findings = disturbed(tmp_path, 18, VACUUM)
    assert findings["relation-lock"].status == "cleared", status(findings)


def test_a_request_without_a_vacuum_before_it_is_no_queue(tmp_path: Path) -> None:
    findings = disturbed(tmp_path, 18, ALTER)
    assert findings["relation-lock"].status == "cleared", status(findings)


def test_a_request_that_waits_for_a_long_transaction_is_named(tmp_path: Path) -> None:
    findings = disturbed(tmp_path, 18, OPEN, ALTER)
    found = findings["relation-lock"]
    assert found.status == "found", status(findings)
    assert values(found)["mode of the lock that is held"] == "AccessShareLock"
    assert values(found)["mode that it wants"] == "AccessExclusiveLock"


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
