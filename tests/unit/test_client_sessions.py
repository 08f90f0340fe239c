"""Sessions by origin and state: zero-filled rows from what the server answers, read again."""

from __future__ import annotations

from typing import Any

from pgdyno.probe._origins import ORIGINS_MAX, OTHERS, by_origin, by_state
from pgdyno.record.sessionages import BOUNDS_S, EMPTY, STATES, WORDS, older, read


def answer(state: str | None, count: int = 1, role: str = "app", **more: Any) -> dict[str, Any]:
    """A row of the query client."""
    ages = [count, 0, 0, 0, 0, 0]
    return {
        "role": role, "application": "web", "address": "10.0.0.1", "state": state, "count": count,
        "unused": 0, "xact_age_ms_max": None, "state_ages": ages, "transaction_ages": [0] * 6,
        "connection_ages": ages, **more,
    }  # fmt: skip


def test_states_that_do_not_occur_are_zero() -> None:
    assert [row["count"] for row in by_state([])] == [0] * 6
    rows = by_state([answer("idle", 3), answer("idle", 2, "job"), answer(None, 7)])
    assert {row["state"]: row["count"] for row in rows if row["count"]} == {"idle": 5}
    [origin] = by_origin([answer("active", 4)])
    assert [origin[column] for column in STATES.values()] == [4, 0, 0, 0, 0, 0]
    assert origin["idle_ages"] == " ".join("000000")


def test_ages_are_those_of_their_states() -> None:
    rows = [
        answer("idle", 3, unused=2),
        answer("idle in transaction", 2, state_ages=[0, 2, 0, 0, 0, 0]),
        answer("idle in transaction (aborted)", 1, state_ages=[0, 0, 0, 0, 0, 1]),
        answer(None, 5),
    ]
    [origin] = by_origin(rows)
    assert (origin["in_transaction"], origin["in_aborted"], origin["hidden"]) == (2, 1, 5)
    assert origin["unused"] == 2
    assert read(origin["idle_ages"]) == (3, 0, 0, 0, 0, 0)
    assert read(origin["pause_ages"]) == (0, 2, 0, 0, 0, 1)
    assert sum(read(origin["connection_ages"])) == 11


def test_many_origins_are_added_up() -> None:
    rows = [answer("idle", 2, f"role{n}") for n in range(ORIGINS_MAX + 30)]
    rows.append(answer("active", 90, "busiest"))
    origins = by_origin(rows)
    assert len(origins) == ORIGINS_MAX + 1
    assert origins[0]["role"] == "busiest"
    [rest] = [each for each in origins if each["role"] == OTHERS]
    assert rest["idle"] == 2 * 31
    assert sum(each["idle"] + each["active"] for each in origins) == 90 + 2 * (ORIGINS_MAX + 30)


def test_buckets_have_words_and_bounds() -> None:
    assert len(WORDS) == len(EMPTY) == len(BOUNDS_S) + 1
    assert older((1, 2, 3, 4, 5, 6), 10) == 3 + 4 + 5 + 6
    assert read(None) == EMPTY
