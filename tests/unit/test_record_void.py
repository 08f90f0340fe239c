"""Void slices and incidents, found in synthetic run files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from record_samples import add_second, at, error_row, group_row, new_recorder, script_row

from pgdyno.dimension import fields_with
from pgdyno.record import Recorder, RunFile
from pgdyno.record.failures import complete_failure
from pgdyno.record.incidents import NEAR_MS, Incident, incidents
from pgdyno.record.void import IncidentCause, VoidReason, void_reason
from pgdyno.spec import Change

SERVER = {"system_identifier": "7", "started_unix_ms": 1000, "checkpointer_unix_ms": 1001,
          "in_recovery": 1}  # fmt: skip
SECONDS = 10
Second = dict[str, Any]


def second(done: int = 100, connections: int = 4, clients: int = 4, **given: Any) -> Second:
    """What one second of a slice holds."""
    return {"done": done, "intended": max(done, 1), "connections": connections,
            "clients": clients, "answered": True, "active": 3, "errors": [],
            "server": None} | given  # fmt: skip


def error(sqlstate: str, count: int = 1, statement: str = "", message: str = "") -> dict[str, Any]:
    return error_row(
        script="", statement=statement, sqlstate=sqlstate, count=count, message=message
    )


def reason(run: RunFile, slice_id: int) -> VoidReason | None:
    each = run.slice(slice_id)
    return void_reason(run, each, fields_with(run.run.spec, Change.from_json(each.change)))


class Made:
    """A run file with one slice, second by second."""

    def __init__(self, path: Path, **spec: Any) -> None:
        group = {"name": "web", "count": 4, "connection": "persistent", "pool": None}
        group |= spec.pop("group", {})
        load = spec.pop("load", {})
        self.recorder: Recorder = new_recorder(path, spec={"clients": [group], "load": load})
        self.at_s = 0

    def slice(self, *seconds: Second, kind: str = "run", **columns: Any) -> int:
        recorder = self.recorder
        slice_id = recorder.open_slice(kind, ns=at(recorder, self.at_s), **columns)
        backlog = 0
        for each in seconds:
            done, intended = each["done"], each["intended"]
            backlog += intended - done
            row = script_row(done=done, intended=intended, backlog=backlog)
            group = group_row(clients=each["clients"], connections=each["connections"])
            group["connect_failures"] = each.get("connect_failures", 0)
            add_second(recorder, self.at_s, [row], groups=[group], errors=each["errors"])
            self._sample(each)
            self.at_s += 1
        recorder.close_slice(slice_id, ns=at(recorder, self.at_s))
        return slice_id

    def _sample(self, each: Second) -> None:
        if each["answered"]:
            ns = at(self.recorder, self.at_s + 0.5)
            self.recorder.add_rows("metric_database", [{"xact_commit": 1}], ns=ns)
            seen = {"ticks": 10, "backend_type": "client backend", "state": "active",
                    "wait_event_type": "", "wait_event": "", "count": each["active"]}  # fmt: skip
            self.recorder.add_rows("wait_sample", [seen], ns=ns)
            row = SERVER | (each["server"] or {})
            self.recorder.add_rows("metric_server", [row], ns=ns)

    def reason(self, slice_id: int) -> VoidReason | None:
        self.recorder.flush()
        with RunFile(self.recorder.path) as run:
            return reason(run, slice_id)

    def why(self, slice_id: int) -> IncidentCause | None:
        found = self.reason(slice_id)
        return found and found.cause

    def incidents(self) -> tuple[Incident, ...]:
        self.recorder.flush()
        with RunFile(self.recorder.path) as run:
            return incidents(run)

    def seen(self) -> list[IncidentCause]:
        """Return the causes of the incidents."""
        return [each.cause for each in self.incidents()]


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Made]:
    return lambda **spec: Made(tmp_path / "run.db", **spec)


def well(count: int = SECONDS) -> list[Second]:
    return [second() for _ in range(count)]


def test_a_slice_in_which_all_went_well_counts(made: Callable[..., Made]) -> None:
    run = made()
    assert run.why(run.slice(*well())) is None
    assert run.seen() == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"started_unix_ms": 2000, "checkpointer_unix_ms": 2001}, IncidentCause.RESTART),
        ({"checkpointer_unix_ms": 2001}, IncidentCause.CRASH),
        ({"system_identifier": "8", "started_unix_ms": 2000}, IncidentCause.REPLACEMENT),
        ({"in_recovery": 0}, IncidentCause.PROMOTION),
        ({"in_recovery": 0, "started_unix_ms": 2000}, IncidentCause.RESTART),
    ],
)
def test_another_server_between_the_edges(
    made: Callable[..., Made], changed: dict[str, Any], why: IncidentCause
) -> None:
    run = made()
    after = [second(server=changed) for _ in range(5)]
    assert run.why(run.slice(*well(5), *after)) == why
    assert run.seen() == [why]


def test_connections_lost_long_before_the_server_is_seen_again_belong_to_its_restart(
    made: Callable[..., Made],
) -> None:
    run = made()
    lost = second(answered=False, errors=[error("08006", 4, message="connection lost")])
    unseen = [second(answered=False) for _ in range(2 * NEAR_MS // 1000)]
    restarted = {"started_unix_ms": 2000, "checkpointer_unix_ms": 2001}
    run.slice(*well(5), lost, *unseen, second(server=restarted))
    assert run.seen() == [IncidentCause.RESTART]


def test_a_checkpointer_that_is_hidden_tells_nothing(made: Callable[..., Made]) -> None:
    run = made()
    hidden = [second(server={"checkpointer_unix_ms": None})] * 3
    assert run.why(run.slice(*well(3), *hidden, *well(3))) is None


@pytest.mark.parametrize("told", [0, 1, None])
def test_a_server_that_stays_what_it_is_was_not_promoted(
    made: Callable[..., Made], told: int | None
) -> None:
    run = made()
    seconds = [second(server={"in_recovery": told})] * 3
    assert run.why(run.slice(*seconds, second(server={"in_recovery": None}), *seconds)) is None
    assert run.seen() == []


def test_a_promotion_between_slices_is_an_incident(made: Callable[..., Made]) -> None:
    run = made()
    run.slice(*well(3))
    assert run.why(run.slice(*[second(server={"in_recovery": 0})] * 3)) is None
    assert run.seen() == [IncidentCause.PROMOTION]


def test_a_restart_of_ours_between_slices_is_nobodys_business(made: Callable[..., Made]) -> None:
    run = made()
    run.slice(*well(3))
    run.recorder.add_event("restart", "server restarted by pgdyno", ns=at(run.recorder, 3))
    after = [second(server={"started_unix_ms": 2000})] * 3
    assert run.why(run.slice(*after)) is None
    assert run.seen() == []


def test_a_restart_by_others_between_slices_is_an_incident(made: Callable[..., Made]) -> None:
    run = made()
    run.slice(*well(3))
    after = [second(server={"started_unix_ms": 2000})] * 3
    assert run.why(run.slice(*after)) is None
    assert run.seen() == [IncidentCause.RESTART]


@pytest.mark.parametrize(("by_us", "trial"), [(True, 1), (False, 1), (False, None)])
def test_a_restart_by_others_since_the_slice_before_voids_a_slice_of_a_trial(
    made: Callable[..., Made], by_us: bool, trial: int | None
) -> None:
    run = made()
    columns = {"kind": "trial", "trial_id": trial, "pair": 1} if trial else {"kind": "baseline"}
    if trial:
        run.recorder.add_trial(kind="compare", title="x", change={})
    assert run.why(run.slice(*well(), **columns, side="a")) is None
    if by_us:
        run.recorder.add_event("restart", "by pgdyno", ns=at(run.recorder, run.at_s))
    again = {"server": {"started_unix_ms": 2000, "checkpointer_unix_ms": 2001}}
    second_one = run.slice(*[second(**again) for _ in range(SECONDS)], **columns, side="b")
    void = trial and not by_us
    assert run.why(second_one) == (IncidentCause.RESTART if void else None)
    third = run.slice(*[second(**again) for _ in range(SECONDS)], **columns, side="a")
    assert run.why(third) is None


def test_nothing_done_though_something_was_due(made: Callable[..., Made]) -> None:
    run = made()
    due = [second(done=0, intended=2) for _ in range(3)]
    assert run.why(run.slice(*due)) == IncidentCause.NOTHING_DONE
    nothing_due = [second(done=0, intended=0) for _ in range(3)]
    assert run.why(run.slice(*nothing_due)) == IncidentCause.NOTHING_DONE


def test_nothing_due_is_nothing_amiss(made: Callable[..., Made]) -> None:
    run = made()
    assert run.why(run.slice(*[second(done=0, intended=0) for _ in range(3)])) is None


@pytest.mark.parametrize(
    ("connections", "why"),
    [
        ([4] * 10, None),
        ([7] * 10, IncidentCause.NO_CONNECTIONS),
        ([0] * 10, IncidentCause.NO_CONNECTIONS),
        ([19] * 10, IncidentCause.NO_CONNECTIONS),
        ([20] * 9 + [19], None),
        ([20] * 5 + [0] * 5, IncidentCause.NO_CONNECTIONS),
    ],
)
def test_clients_that_stay_unconnected(
    made: Callable[..., Made], connections: list[int], why: IncidentCause | None
) -> None:
    clients = 4 if connections[0] == 4 else 20
    run = made(group={"count": clients})
    seconds = [second(connections=number, clients=clients) for number in connections]
    assert run.why(run.slice(*seconds)) == why


def test_sentences_of_clients_without_connections(made: Callable[..., Made]) -> None:
    run = made(group={"count": 20})
    refused = error("53300", statement="connect", message="too many clients")
    seconds = [
        [second(connections=number, clients=20, errors=errors) for number in connections]
        for connections, errors in (
            ([7] * 3, [refused]), ([0] * 3, []), ([20] * 5 + [0] * 5, []))
    ]  # fmt: skip
    reasons = [run.reason(run.slice(*each)) for each in seconds]
    assert [each and each.sentence for each in reasons] == snapshot(
        [
            "7 of 20 clients had a connection: 53300 too many clients",
            "none of 20 clients had a connection: 53300 too many clients",
            "clients were without a connection for 50 % of their time",
        ]
    )


@pytest.mark.parametrize(
    ("group", "failures", "void"),
    [
        ({"pool": {"max": 4}}, 0, False),
        ({"pool": {"max": 4}}, 3, True),
        ({"connection": "per-transaction"}, 3, False),
        ({"connection": {"reconnect_every": 10}}, 3, False),
        ({"connection": {"slow_start": False}}, 0, True),
    ],
)
def test_pools_and_clients_that_connect_anew_hold_no_number(
    made: Callable[..., Made], group: dict[str, Any], failures: int, void: bool
) -> None:
    run = made(group=group)
    seconds = [second(connections=2, connect_failures=failures) for _ in range(3)]
    assert bool(run.why(run.slice(*seconds))) is void


def test_a_pool_that_a_change_makes_smaller_is_no_loss(made: Callable[..., Made]) -> None:
    run = made()
    change = {"pool_max": {"web": 2}}
    assert run.why(run.slice(*[second(connections=2)] * 3, kind="trial", change=change)) is None


@pytest.mark.parametrize("key", ["clients.connection", "clients.web.connection"])
def test_a_change_after_which_clients_reconnect_expects_no_number(
    made: Callable[..., Made], key: str
) -> None:
    run = made()
    change = {"spec": {key: "per-transaction"}}
    assert run.why(run.slice(*[second(connections=2)] * 3, kind="trial", change=change)) is None


def test_clients_that_end_after_their_transactions(made: Callable[..., Made]) -> None:
    run = made(load={"transactions": 10})
    seconds = [second(connections=1), second(connections=0, clients=0)]
    assert run.why(run.slice(*seconds)) is None


@pytest.mark.parametrize(("lost", "void"), [(3, False), (4, True), (9, True)])
def test_all_connections_lost_at_once(made: Callable[..., Made], lost: int, void: bool) -> None:
    run = made()
    cut = second(errors=[error("connection-lost", lost, statement="update t")])
    why = run.why(run.slice(*well(4), cut, *well(4)))
    assert why == (IncidentCause.LOST_CONNECTIONS if void else None)
    assert run.seen() == ([IncidentCause.LOST_CONNECTIONS] if void else [])


@pytest.mark.parametrize(("then", "void"), [(2, False), (3, True)])
def test_connections_lost_while_an_interval_ends(
    made: Callable[..., Made], then: int, void: bool
) -> None:
    run = made()
    cut = [second(errors=[error("57P01", lost)]) for lost in (1, then)]
    why = run.why(run.slice(*well(4), *cut, *well(4)))
    assert why == (IncidentCause.LOST_CONNECTIONS if void else None)
    assert run.seen() == ([IncidentCause.LOST_CONNECTIONS] if void else [])


def test_connections_lost_one_after_the_other(made: Callable[..., Made]) -> None:
    run = made()
    assert run.why(run.slice(*[second(errors=[error("57P01")]) for _ in range(8)])) is None


@pytest.mark.parametrize("sqlstate", ["57P02", "57P03"])
def test_what_a_server_says_of_its_own_end(made: Callable[..., Made], sqlstate: str) -> None:
    run = made()
    said = second(errors=[error(sqlstate, statement="connect")])
    assert run.why(run.slice(*well(4), said, *well(4))) is not None


def test_a_server_that_answers_nobody(made: Callable[..., Made]) -> None:
    run = made()
    silent = [second(done=0, intended=1, answered=False) for _ in range(3)]
    assert run.why(run.slice(*well(4), *silent, *well(4))) == IncidentCause.NO_ANSWERS
    (seen,) = run.incidents()
    assert (seen.cause, seen.at_s) == (IncidentCause.NO_ANSWERS, 3.5)


def test_a_silence_that_begins_within_a_second(made: Callable[..., Made]) -> None:
    run = made()
    silent = [second(done=0, intended=1, answered=False) for _ in range(2)]
    why = run.why(run.slice(*well(4), second(done=9, answered=False), *silent, *well(4)))
    assert why == IncidentCause.NO_ANSWERS


def test_a_stall_in_which_the_probes_are_answered_is_measured(made: Callable[..., Made]) -> None:
    """A checkpoint that holds all clients up is what is to be seen, not an absence."""
    run = made()
    stalled = [second(done=0, intended=1) for _ in range(5)]
    assert run.why(run.slice(*well(4), *stalled, *well(4))) is None
    assert run.seen() == []


@pytest.mark.parametrize(("script", "void"), [("select 1;", True), ("\\\\sleep 5 s", False)])
def test_a_link_through_which_nothing_comes(
    made: Callable[..., Made], script: str, void: bool
) -> None:
    """The probes have a way of their own; the server waits for clients that wait for it."""
    run = made(group={"script": [{"file": "own.sql", "text": script.replace("\\\\", "\\")}]})
    cut = [second(done=0, intended=1, active=0) for _ in range(5)]
    why = run.why(run.slice(*well(4), *cut))
    assert why == (IncidentCause.NO_DATA if void else None)
    assert run.seen() == ([IncidentCause.NO_DATA] if void else [])


def test_a_short_silence_in_a_long_run_is_an_incident_and_not_more(
    made: Callable[..., Made],
) -> None:
    run = made()
    silent = [second(done=0, intended=1, answered=False) for _ in range(3)]
    assert run.why(run.slice(*well(30), *silent, *well(30))) is None
    assert run.seen() == [IncidentCause.NO_ANSWERS]


def test_probes_that_are_not_answered_alone_say_nothing(made: Callable[..., Made]) -> None:
    run = made()
    assert run.why(run.slice(*well(2), *[second(answered=False)] * 6, *well(2))) is None


def test_a_ramp_decides_nothing_anyway(made: Callable[..., Made]) -> None:
    run = made()
    assert run.why(run.slice(*[second(connections=1)] * 3, kind="ramp")) is None


def test_only_pairs_without_a_void_slice_count(made: Callable[..., Made]) -> None:
    run = made()
    trial = run.recorder.add_trial(kind="compare", title="x")
    ids = [
        run.slice(*well(1), kind="trial", trial_id=trial, pair=pair, side=side)
        for pair in (1, 2, 3)
        for side in ("b", "a")
    ]
    run.recorder.void_slice(ids[2], "the server was restarted")
    run.slice(*well(1), kind="trial", trial_id=trial, pair=4, side="a")
    run.recorder.flush()
    with RunFile(run.recorder.path) as file:
        pairs = [(a.id, b.id) for a, b in file.pairs(trial)]
        assert file.slice(ids[2]).void == "the server was restarted"
    assert pairs == [(ids[1], ids[0]), (ids[5], ids[4])]


READ_ONLY = "cannot execute INSERT in a read-only transaction"


def failing(count: int = 3, answered: bool = False) -> list[Second]:
    """Seconds in which the server answers with nothing but errors."""
    refused = error("25006", 900, statement="insert into t values (1)", message=READ_ONLY)
    return [second(done=0, answered=answered, active=0, errors=[refused])] * count


@pytest.mark.parametrize("answered", [False, True])
def test_failures_are_answers(made: Callable[..., Made], answered: bool) -> None:
    run = made()
    run.slice(*well(1))
    assert run.why(run.slice(*failing(answered=answered))) == IncidentCause.FAILURES
    assert run.seen() == []


def test_lost_connections_are_no_answers(made: Callable[..., Made]) -> None:
    run = made()
    lost = error("08006", 1, statement="select 1")
    silent = [second(done=0, answered=False, errors=[lost])] * 3
    assert run.why(run.slice(*well(4), *silent)) == IncidentCause.NO_ANSWERS


@pytest.mark.parametrize(
    ("sqlstate", "cause"),
    [("3D000", IncidentCause.REFUSAL), ("connect-failed", IncidentCause.ABSENCE)],
)
def test_a_server_that_turns_all_away_is_there(
    made: Callable[..., Made], sqlstate: str, cause: IncidentCause
) -> None:
    run = made()
    refused = error(sqlstate, statement="connect", message="no such database")
    run.slice(*well(4), *[second(done=0, answered=False, errors=[refused])] * 4)
    detail = {"probe": "server", "state": "away"}
    run.recorder.add_event("probe", "server away", detail, ns=at(run.recorder, 4))
    assert run.seen() == [cause]


@pytest.mark.parametrize(("answered", "active"), [(False, 3), (True, 0)])
def test_a_silence_over_several_slices_is_one_incident(
    made: Callable[..., Made], answered: bool, active: int
) -> None:
    run = made()
    silent = second(done=0, answered=answered, active=active)
    run.slice(*well(3))
    for _ in range(3):
        run.slice(*[silent] * 3)
    run.slice(*well(3))
    (seen,) = run.incidents()
    assert seen.cause is (IncidentCause.NO_DATA if answered else IncidentCause.NO_ANSWERS)
    assert seen.at_s == pytest.approx(3, abs=0.5)


def test_the_error_of_a_run_that_failed_wholly(made: Callable[..., Made]) -> None:
    run = made()
    run.slice(*failing())
    run.recorder.flush()
    with RunFile(run.recorder.path) as file:
        problem = complete_failure(file)
    assert problem is not None
    assert (problem.code, problem.exit_status) == ("nothing-succeeds", 2)
    assert problem.message.endswith(f"2,700 of them in connecting: 25006 {READ_ONLY}")
    assert "primary" in (problem.hint or "")


@pytest.mark.parametrize(
    "seconds", [[*failing(), *well(1)], [second(done=0)], [second(done=0, errors=[error("53300")])]]
)
def test_what_did_not_fail_wholly(made: Callable[..., Made], seconds: list[Second]) -> None:
    run = made()
    run.slice(*seconds)
    run.recorder.flush()
    with RunFile(run.recorder.path) as file:
        assert complete_failure(file) is None
