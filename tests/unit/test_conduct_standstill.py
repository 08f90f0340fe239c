"""When a load is given up, and when a lost server is waited for."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from pgdyno.conduct import _server_away
from pgdyno.conduct._server_away import Standstill, is_loss, retry_while_away
from pgdyno.errors import PgdynoError, RunError, SetupError


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_server_away, "time", clock)
    return clock


def interval(done: int = 0, *errors: tuple[str, int], **groups: int) -> dict[str, Any]:
    """One second; ``groups`` are connections by group."""
    names = groups or {"web": 4}
    return {
        "scripts": [{"group": name, "done": done, "intended": 1} for name in names],
        "groups": [{"group": name, "connections": n} for name, n in names.items()],
        "errors": [
            {"group": next(iter(names)), "script": "s", "sqlstate": code, "message": "no",
             "expected": False, "retried": False, "count": count}
            for code, count in errors
        ],
    }  # fmt: skip


def ended(
    clock: Clock,
    each: dict[str, Any],
    *,
    seconds: int,
    silent_s: float = 0.0,
    outage_s: float | None = None,
) -> str | None:
    """The code of the error that ends a load of which every second is like that."""
    watch = Standstill(lambda: silent_s, outage_s=outage_s)
    for _ in range(seconds):
        clock.now_s += 1
        watch.see(each)
        try:
            watch.check()
        except RunError as problem:
            return problem.code
    return None


def test_a_load_that_expects_an_outage_waits_for_a_server_that_accepts_writes(clock: Clock) -> None:
    none = interval(0, ("no-suitable-server", 50))
    assert ended(clock, none, seconds=7) == "nothing-succeeds"
    assert ended(clock, none, seconds=60, outage_s=80.0) is None
    assert ended(clock, interval(0, ("42501", 50)), seconds=7, outage_s=80.0) == "nothing-succeeds"
    assert ended(clock, interval(0), seconds=70, silent_s=70.0, outage_s=80.0) is None
    assert ended(clock, interval(0), seconds=90, silent_s=90.0, outage_s=80.0) == "server-silent"


def test_a_load_of_which_nothing_succeeds(clock: Clock) -> None:
    assert ended(clock, interval(0, ("42501", 50)), seconds=7) == "nothing-succeeds"
    assert ended(clock, interval(0, ("42501", 50)), seconds=4) is None
    assert ended(clock, interval(0, ("42501", 1)), seconds=8) is None
    assert ended(clock, interval(1, ("42501", 5000)), seconds=60) is None
    assert ended(clock, interval(0), seconds=60) is None


@pytest.mark.parametrize("sqlstate", ["connect-failed", "57P03", "53300", "connection-lost"])
def test_what_passes_when_the_server_is_back_is_waited_for(clock: Clock, sqlstate: str) -> None:
    assert ended(clock, interval(0, (sqlstate, 50)), seconds=29) is None


def test_a_group_that_has_not_failed_may_still_succeed(clock: Clock) -> None:
    both = interval(0, ("42501", 50), web=4, reports=1)
    assert ended(clock, both, seconds=20) is None


def test_a_server_that_answers_nobody(clock: Clock) -> None:
    assert ended(clock, interval(0), seconds=40, silent_s=40.0) == "server-silent"
    assert ended(clock, interval(0), seconds=40) is None, "it answers the probes"
    assert ended(clock, interval(0, web=0), seconds=40, silent_s=40.0) is None, "the engine does"


def test_what_fails_for_a_lost_server_is_done_again(clock: Clock) -> None:
    problems = [SetupError("gone", code="no-server"), psycopg.OperationalError("closed")]

    def act() -> None:
        if problems:
            raise problems.pop()

    retry_while_away(act, clock.wait)
    assert not problems


def test_a_server_that_does_not_come_back_ends_the_run(clock: Clock) -> None:
    def act() -> None:
        raise SetupError("no PostgreSQL server answers", code="no-server")

    with pytest.raises(RunError, match="no PostgreSQL server answers") as raised:
        retry_while_away(act, clock.wait)
    assert raised.value.exit_status == 2


@pytest.mark.parametrize(
    "problem",
    [
        SetupError("no", code="no-permission"),
        SetupError("no", code="locked-out"),
        RunError("no", code="server-gone"),
        psycopg.errors.InsufficientPrivilege("no"),
    ],
)
def test_what_is_refused_is_no_loss(problem: PgdynoError | psycopg.Error) -> None:
    assert not is_loss(problem)


def test_a_loss_is_known_by_what_it_was_caused_by() -> None:
    try:
        try:
            raise psycopg.errors.AdminShutdown("terminating")
        except psycopg.Error:
            raise SetupError("checkpoint: terminating", code="statement-failed") from None
    except SetupError as problem:
        assert is_loss(problem)
