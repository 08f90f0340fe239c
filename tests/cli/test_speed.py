"""``--speed``: rates of a capture or a spec, all of them as many times as high."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from test_capture_command import SHOP

from pgdyno.record import RunFile

if TYPE_CHECKING:
    from printed import Said

Pgdyno = Callable[..., "Said"]
IDLE: dict[str, Any] = {"sessions": 4, "busy_sessions": 0.2, "per_s": [20.0]}
BUSY: dict[str, Any] = {"sessions": 2, "busy_sessions": 1.9, "per_s": [200.0]}


def arrivals(path: str) -> list[Any]:
    """The arrivals of the groups of a run."""
    with RunFile(Path(path)) as run:
        return [group["arrival"] for group in run.run.spec["clients"]]


def written(*applications: dict[str, Any]) -> str:
    """A capture with these applications."""
    Path("apps.pgdyno").write_text(json.dumps({**SHOP, "applications": applications}))
    return "apps.pgdyno"


def test_rates_of_a_capture_are_multiplied(pgdyno: Pgdyno) -> None:
    file = written(BUSY, IDLE, {**IDLE, "per_s": [60.0]})
    said = pgdyno("run", file, "--speed", "2x", "-T", "1", "-o", "fast.db")
    assert said.status == 0, said.err
    of_busy, of_idle, of_third = arrivals("fast.db")
    assert of_busy == "closed"
    assert (of_idle["rate"], of_third["rate"]) == (40, 120)
    note = "note: transactions of application 1 follow each other as fast as they are answered"
    assert note in said.err
    # A run file has the rates that it ran with.
    again = pgdyno("run", "fast.db", "--speed", "25%", "-T", "1", "-o", "slow.db")
    assert again.status == 0, again.err
    assert [each["rate"] for each in arrivals("slow.db")[1:]] == [10, 30]


def test_a_load_without_a_rate_has_no_speed(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", written(BUSY), "--speed", "2", "-T", "1")
    assert (said.status, said.code) == (1, "rate-missing")
    assert said.err.splitlines()[-3:] == snapshot(
        [
            "error: --speed requires transactions that begin at a rate; those of this load follow each other as fast as they are answered",
            "",
            "hint: -c makes more clients of it, and -R has its transactions begin at a rate",
        ]
    )


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "1e9", "0.0001", "1001x", "2y", "", "%"])
def test_what_is_no_speed(speed: str, pgdyno: Pgdyno) -> None:
    said = pgdyno("investigate", written(IDLE), "--speed", speed)
    assert said.status == 1
    expected = f'"{speed}" is not a factor from 0.001 to 1000, such as 2x, 0.5 or 50%'
    assert expected in said.err


def test_a_rate_and_a_speed_exclude_each_other(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", written(IDLE), "-R", "100", "--speed", "2x")
    assert (said.status, said.code) == (1, "contradiction")


def test_a_rate_beyond_all_rates(pgdyno: Pgdyno) -> None:
    Path("fast.toml").write_text("[[clients]]\narrival = { rate = 1_000_000 }\n")
    said = pgdyno("run", "fast.toml", "--speed", "100")
    assert said.status == 1
    expected = "--speed 100 makes a rate of more than 10,000,000 transactions per second"
    assert expected in said.err
