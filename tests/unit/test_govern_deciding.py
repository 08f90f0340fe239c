"""The governor's decisions from readings: slow-down, the pause that holds, forecasts and pins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from pgdyno.errors import UsageError
from pgdyno.govern._client import now_s
from pgdyno.govern._reading import AgeLimits, AgeReading, HorizonHolder, Slow
from pgdyno.govern._state import Board, remember, was_paused
from pgdyno.govern.daemon import INTERVAL_S_MAX, GovernRequest
from pgdyno.govern.deciding import SHARE_MIN, AgeMarks, Decider, delay_per_s, ids, lines_of_ages
from pgdyno.results import schemas
from pgdyno.results.govern import DatabaseAge, GovernDecision, MemberSpace, RelationAge
from pgdyno.server.directories import govern_dir

MARKS = AgeMarks(1000, 2000)
LIMITS = AgeLimits("1", 200, 400, 1600, 1600, True, 8192, False, True)


def reading(
    at_s: float, age: int, *, next_xid: int = 0, mxid_age: int = 0, **slow: Any
) -> AgeReading:
    databases = (DatabaseAge(database="shop", xid_age=age, mxid_age=mxid_age),)
    return AgeReading(at_s, next_xid, 0, databases, Slow(LIMITS, **slow))


def decider(marks: AgeMarks = MARKS) -> Decider:
    return Decider(marks, "postgresql://u@h/shop", "18.6", 10.0, 1.0)


def test_a_pause_holds_until_the_age_is_below_the_low_mark() -> None:
    """The published governor lets loaders go on as soon as the age is below the high mark."""
    decides = decider()
    ages = [500, 1500, 1999, 2000, 1999, 1500, 1000, 999, 1500]
    said = [decides.decide(reading(n, age)).decision for n, age in enumerate(ages)]
    assert said == ["go", "slow", "slow", *["pause"] * 4, "go", "slow"]


def test_the_slow_down_is_that_of_the_age_at_the_next_look() -> None:
    decides = decider()
    assert decides.decide(reading(0, 900, next_xid=900)).share == 1
    burst = decides.decide(reading(1, 1200, next_xid=1200))
    assert (burst.decision, burst.share) == ("slow", 0.5)
    assert decides.decide(reading(2, 1200, next_xid=1200)).share == 0.8, "the burst is over"
    assert decides.decide(reading(3, 1800, next_xid=1800)).share == SHARE_MIN


@given(st.floats(0, 3000), st.floats(0, 3000))
def test_the_slow_down_is_monotonic_and_without_steps(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert SHARE_MIN <= MARKS.share(high) <= MARKS.share(low) <= 1
    assert MARKS.share(low) - MARKS.share(high) <= (high - low) / 1000 + 1e-9


def test_a_share_is_rest_after_work() -> None:
    assert delay_per_s(1.0) == 0
    assert delay_per_s(0.25) == 3, "three seconds of rest after one of work"


def test_the_worst_of_ids_multixacts_and_members_decides() -> None:
    decided = decider().decide(reading(0, 10, mxid_age=1500))
    assert decided.worst is not None
    assert (decided.worst.of, decided.decision) == ("multixacts", "slow")
    members = MemberSpace(used=2 * 1500, share=0.5)
    decided = decider().decide(reading(0, 10, members=members))
    assert decided.worst is not None
    assert (decided.worst.of, decided.worst.age) == ("multixact members", 1500)


def test_the_forecast_is_the_room_over_the_rate_of_the_last_minute() -> None:
    decides = decider()
    decides.decide(reading(0, 100, next_xid=100))
    burn = decides.decide(reading(10, 200, next_xid=200)).burn
    assert burn is not None
    assert (burn.xids_s, burn.to_low_s, burn.to_high_s) == (10, 80, 180)
    assert burn.to_forced_vacuum_s == 0, "autovacuum is forced from 200"


def test_a_counter_that_jumps_back_is_no_burn() -> None:
    decides = decider()
    decides.decide(reading(0, 100, next_xid=5000))
    burn = decides.decide(reading(1, 100, next_xid=100)).burn
    assert burn is not None
    assert burn.xids_s is None


def test_what_keeps_the_age_from_going_down_is_named_with_what_ends_it() -> None:
    slot = HorizonHolder("slot", "o'ld", 1900, "not in use")
    decided = decider().decide(
        reading(0, 2100, holders=(slot, HorizonHolder("session", "7", 10, "")))
    )
    assert [(pin.name, pin.blocks) for pin in decided.pins] == [("o'ld", True)]
    assert decided.why == snapshot(
        "the oldest transaction ID of database shop is 2,100 old; loaders pause until"
        " it is below 1,000; the slot o'ld keeps it from going down, and pausing alone"
        " does not help: let its consumer catch up, or drop it: SELECT"
        " pg_drop_replication_slot('o''ld')"
    )
    assert "pg_drop_replication_slot('o''ld')" in decided.why


def test_a_prepared_transaction_may_keep_multixacts() -> None:
    holders = (HorizonHolder("prepared transaction", "left", 10, "in database shop"),)
    decided = decider().decide(reading(0, 10, mxid_age=1500, holders=holders))
    assert decided.warnings == snapshot(
        (
            (
                "the prepared transaction left may keep multixacts, whose holders no view"
                " shows: COMMIT PREPARED or ROLLBACK PREPARED it"
            ),
        )
    )
    assert not decider().decide(reading(0, 1500, holders=holders)).warnings


def test_a_pause_that_autovacuum_need_not_end_is_warned_of() -> None:
    late = Slow(AgeLimits("1", 1500, 400, 1600, 1600, True, 8192, False, True))
    databases = (DatabaseAge(database="shop", xid_age=1, mxid_age=0),)
    decided = decider().decide(AgeReading(0.0, 0, 0, databases, late))
    assert decided.warnings == snapshot(
        (
            (
                "autovacuum_freeze_max_age is 1,500, not below the low mark: autovacuum need"
                " not freeze what a pause waits for; lower it, or let the governor vacuum"
                " (--vacuum)"
            ),
        )
    )


def board(when_unknown: Any = "pause", valid_s: float = 10.0) -> Board:
    return Board("postgresql://u@h/shop", MARKS, valid_s, when_unknown)


@pytest.mark.parametrize("when_unknown", ["pause", "go"])
def test_what_is_not_known_is_decided_by_the_policy(when_unknown: str) -> None:
    decides = board(when_unknown)
    first = decides.current()
    assert (first.decision, first.known, first.age_s) == (when_unknown, False, None)
    decides.put(decider().decide(reading(0, 10)), now_s())
    assert decides.current().known
    decides.lose("the connection was lost")
    lost = decides.current()
    assert (lost.decision, lost.known) == (when_unknown, False)
    assert lost.why.endswith("the connection was lost")


def test_loaders_that_are_paused_stay_paused_while_nothing_is_known() -> None:
    decides = board("go")
    decides.put(decider().decide(reading(0, 2500)), now_s())
    decides.lose("gone")
    assert decides.current().decision == "pause"


def test_the_pause_of_the_last_governor_is_in_force_before_the_first_look() -> None:
    decides = board("go")
    decides.keep_paused()
    assert decides.current().decision == "pause"
    decides.put(decider().decide(reading(0, 10)), now_s())
    decides.lose("gone")
    assert decides.current().decision == "go"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"{}"], ids=repr)
def test_a_memory_that_cannot_be_read_is_a_pause(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    assert not was_paused("7")
    assert remember("7", paused=True) == ""
    assert was_paused("7")
    (file,) = govern_dir().iterdir()
    file.write_bytes(content)
    assert was_paused("7")
    assert remember("7", paused=False) == ""
    assert not was_paused("7")


def test_a_pause_that_cannot_be_kept_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path))
    directory = govern_dir()
    directory.rmdir()
    directory.write_text("in its place")
    assert remember("7", paused=True)


def test_a_reading_that_is_too_old_says_nothing() -> None:
    decides = board()
    decides.put(decider().decide(reading(0, 10)), now_s() - 11)
    assert (decides.current().decision, decides.current().known) == ("pause", False)


def test_decisions_are_as_the_published_schema_has_them() -> None:
    for decision in (board().current(), decider().decide(reading(0, 2500))):
        assert isinstance(decision, GovernDecision)
        jsonschema.validate(decision.to_json(), schemas()["govern"])


@pytest.mark.parametrize("marks", [(0, 10), (10, 10), (20, 10), (10, 2**31)])
def test_marks_without_room_between_them_are_refused(marks: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="low mark must be below"):
        AgeMarks(*marks)


def test_ages_are_listed_with_toast_tables_and_multixacts() -> None:
    relation = RelationAge(
        database="shop", relation="public.documents", toast=True, temporary=False,
        xid_age=152_400_000, mxid_age=1, size_bytes=41 << 30, may_vacuum=True,
    )  # fmt: skip
    slow = {"relations": (relation,), "members": MemberSpace(used=1 << 24, share=0.0039)}
    found = reading(0, 152_400_000, mxid_age=3120, **slow)
    closed = DatabaseAge(database="template0", connectable=False, xid_age=1, mxid_age=0)
    found = replace(found, databases=(*found.databases, closed))
    assert [*lines_of_ages(decider().decide(found))] == snapshot(
        [
            "database shop: 152.4 million transaction IDs, 3,120 multixacts",
            ("database template0 (vacuumed by autovacuum alone): 1 transaction ID, 0 multixacts"),
            "TOAST table of public.documents, database shop: 152.4 million transaction IDs,"
            " 1 multixact, 41 GB",
            "multixact members: 0.39 % of their space",
        ]
    )
    assert [*lines_of_ages(board().current())] == [], "nothing is known"


def test_numbers_of_ids_read_as_they_are_spoken_of() -> None:
    said = [ids(each) for each in (500, 1_200_000_000, 152_400_000)]
    assert said == ["500", "1.2 billion", "152.4 million"]


@pytest.mark.parametrize("interval_s", [0.0, 61.0, 3.6e8, float("nan")])
def test_looks_are_not_so_rare_that_a_decision_is_believed_for_long(interval_s: float) -> None:
    with pytest.raises(UsageError, match="at most 60 s"):
        GovernRequest("host=h", interval_s=interval_s)
    assert GovernRequest("host=h", interval_s=INTERVAL_S_MAX).valid_s == 300


def test_a_line_end_in_the_name_of_a_database_begins_no_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from pgdyno.cli.govern_command import _echo

    _echo("go: the oldest transaction ID of database a\nb is 5 old")
    assert capsys.readouterr().out == snapshot(
        "go: the oldest transaction ID of database a\\nb is 5 old\n"
    )
