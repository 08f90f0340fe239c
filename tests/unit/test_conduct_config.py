"""The engine's configuration for a spec: by equality, and the shapes of arrival by their area."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.conduct._config import Acks, arrival_config, engine_config
from pgdyno.server import ConnInfo
from pgdyno.spec import spec_from_fields
from pgdyno.workload import Tables, WeightedScript, Workload

HERE = ConnInfo(host="/run", port=0, user="me", password="pw", database="db")
WORK = Workload("w", [WeightedScript("w", "select 1;", "w.sql", 3)], Tables.NONE)


def config(
    fields: dict[str, Any], *, scheduled: bool = True, acks: Acks | None = None
) -> dict[str, Any]:
    spec = spec_from_fields(fields)
    names = [group.name for group in spec.clients]
    return engine_config(
        spec, HERE, dict.fromkeys(names, WORK), {name: {"scale": "1"} for name in names},
        scheduled=scheduled, acks=acks,
    )  # fmt: skip


def test_the_defaults_say_nothing_special() -> None:
    assert config({}) == {
        "target": {
            "hosts": [{"host": "/run", "hostaddr": None, "port": 0}],
            "user": "me", "password": "pw", "database": "db", "application_name": "pgdyno",
        },
        "threads": 1, "seed": None, "protocol": "prepared", "max_tries": 10, "connecting_max": 100,
        "backoff_ms_min": 50, "backoff_ms_max": 2000,
        "groups": [{
            "name": "clients", "clients": 8, "schedule": [], "think_ms": 0,
            "variables": {"scale": "1"},
            "scripts": [{"name": "w", "text": "select 1;", "file": "w.sql", "weight": 3}],
        }],
    }  # fmt: skip


def test_everything_at_once() -> None:
    made = config(
        {
            "clients": [
                {
                    "name": "web",
                    "count": 4,
                    "arrival": {"rate": 50, "process": "constant", "queue_max": 10},
                    "latency_limit": "1500us",
                    "pool": {
                        "max": 3, "min_idle": 1, "max_wait": "1s", "max_lifetime": "1min",
                        "idle_timeout": "10s", "validation": {"after_idle": "500ms"},
                    },
                    "instances": 2,
                    "connection": {"slow_start": False},
                    "hold_open": "5ms",
                },
                {"name": "cron", "connection": "per-transaction", "think": "1s"},
                {"name": "parked", "count": 5, "idle": True},
            ],
            "load": {
                "threads": 2, "reactor": "mio", "cpus": [0, 1], "nice": 5, "parameters": "binary",
                "transactions": 7, "acks": "acks", "seed": 9, "ramp": "2s",
            },
        }
    )  # fmt: skip
    scripts = [{"name": "w", "text": "select 1;", "file": "w.sql", "weight": 3}]
    common = {"variables": {"scale": "1"}, "scripts": scripts}
    assert made["groups"] == [
        {
            "application_name": "pgdyno/web",
            "name": "web", "clients": 4, "schedule": [], "think_ms": 0, **common,
            "arrival": {
                "process": "constant", "when_busy": "queue", "queue_max": 10,
                "profile": {"kind": "segments", "repeat": False, "segments": [
                    {"duration_ms": 2000, "rate_from": 0.0, "rate_to": 50.0},
                    {"duration_ms": 60000, "rate_from": 50.0, "rate_to": 50.0},
                ]},
            },
            "latency_limit_us": 1500,
            "pool": {
                "max": 3, "max_wait_ms": 1000, "min_idle": 1, "max_lifetime_ms": 60000,
                "idle_timeout_ms": 10000,
                "validation": {"query": "select 1", "after_idle_ms": 500},
            },
            "instances": 2,
            "connection": {"reconnect_every": None, "slow_start": False},
            "hold_open_ms": 5,
            "transactions": 7,
        },
        {
            "application_name": "pgdyno/cron",
            "name": "cron", "clients": 8, "think_ms": 1000, **common,
            "schedule": [{"at_ms": 0, "clients": 8, "ramp_ms": 2000}],
            "connection": {"reconnect_every": 1, "slow_start": True},
            "transactions": 7,
        },
        {
            "application_name": "pgdyno/parked",
            "name": "parked", "clients": 5, "think_ms": 0, **common, "idle": True,
            "schedule": [{"at_ms": 0, "clients": 5, "ramp_ms": 2000}],
        },
    ]  # fmt: skip
    load = {key: value for key, value in made.items() if key not in ("groups", "target")}
    assert load == {
        "threads": 2, "seed": 9, "protocol": "prepared", "max_tries": 10, "connecting_max": 100,
        "backoff_ms_min": 50, "backoff_ms_max": 2000,
        "reactor": "mio", "cpus": [0, 1], "nice": 5, "parameters": "binary",
        "acks": {"directory": "acks"},
    }  # fmt: skip


def segments(load: dict[str, Any], *, scheduled: bool = True, **shape: Any) -> list[Any]:
    fields = {"clients": [{"arrival": {"rate": 100, **shape}}], "load": load}
    spec = spec_from_fields(fields)
    arrival = spec.clients[0].open_loop
    assert arrival is not None
    profile = arrival_config(spec, arrival, scheduled=scheduled)["profile"]
    return [tuple(piece.values()) for piece in profile["segments"]] + [profile["repeat"]]


def test_a_step_without_a_ramp_is_a_jump() -> None:
    steps = [{"at": "5s", "rate": 300}, {"at": "8s", "rate": 0, "ramp": "2s"}]
    assert segments({"ramp": "1s"}, steps=steps) == [
        (1000, 0.0, 100.0), (4000, 100.0, 100.0), (3000, 300.0, 300.0), (2000, 300.0, 0.0),
        (60000, 0.0, 0.0), False,
    ]  # fmt: skip


def test_the_steps_of_the_load_are_steps_of_the_rate() -> None:
    steps = [{"at": "0s", "share": 0.5}, {"at": "4s", "share": 1}]
    assert segments({"steps": steps}) == [(4000, 50.0, 50.0), (60000, 100.0, 100.0), False]
    assert segments({"steps": steps}, scheduled=False) == [(60000, 100.0, 100.0), False]


def test_a_burst_ends_its_period() -> None:
    burst = {"every": "10s", "length": "2s", "rate": 800}
    assert segments({}, burst=burst) == [(8000, 100.0, 100.0), (2000, 800.0, 800.0), True]


def test_a_sine_is_the_engines_own() -> None:
    spec = spec_from_fields(
        {"clients": [{"arrival": {"rate": 100, "sine": {"amplitude": 60, "period": "1min"}}}]}
    )
    arrival = spec.clients[0].open_loop
    assert arrival is not None
    assert arrival_config(spec, arrival, scheduled=True)["profile"] == {
        "kind": "sine", "mean": 100.0, "amplitude": 60.0, "period_ms": 60000,
    }  # fmt: skip


@given(
    st.lists(st.floats(0, 10), min_size=24, max_size=24).filter(any),
    st.integers(24, 10**9),
)
def test_a_day_has_its_period_and_is_continuous(factors: list[float], period_ms: int) -> None:
    *pieces, repeat = segments({}, day={"factors": factors, "period": f"{period_ms}ms"})
    assert repeat
    assert sum(duration_ms for duration_ms, _, _ in pieces) == period_ms
    ends = [rate_to for _, _, rate_to in pieces]
    starts = [rate_from for _, rate_from, _ in pieces]
    assert starts[1:] + starts[:1] == ends
    assert starts == [100.0 * factor for factor in factors]


@pytest.mark.parametrize("idle", [False, True])
def test_idle_clients_are_not_waited_for(idle: bool) -> None:
    from pgdyno.conduct._load import _transactions_in_all

    made = config({"clients": [{"name": "a", "count": 2}, {"name": "b", "count": 3, "idle": idle}],
                   "load": {"transactions": 10}})  # fmt: skip
    assert _transactions_in_all(made) == (20 if idle else 50)
    assert _transactions_in_all(config({})) is None


def test_what_goes_before_a_commit_is_numbered_as_the_ledger_numbers_groups() -> None:
    def made(acks: Acks) -> dict[str, Any]:
        clients = [{"name": "parked", "idle": True}, {"name": "web"}, {"name": "cron"}]
        return config({"clients": clients}, acks=acks)

    with_witness = made(Acks(Path("a"), 17, lambda number: f"select {number}"))
    assert with_witness["acks"] == {"directory": "a", "label": 17}
    witnesses = [group.get("witness") for group in with_witness["groups"]]
    assert witnesses == [None, "select 1", "select 2"]
    without = made(Acks(Path("a")))
    assert without["acks"] == {"directory": "a"}
    assert not any("witness" in group for group in without["groups"])
