"""Settings of poolers without effect: as combined, in a version, or with clients that stay."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from pgdyno.pooler import without_effect
from pgdyno.spec.connections import clients_stay

SERIALIZED = {"serialize_accept": "on", "child_life_time": "0", "connection_life_time": "60"}


@pytest.mark.parametrize(
    ("version", "works"),
    [((3, 6, 22), False), ((3, 6, 23), True), ((4, 1, 3), False), ((4, 1, 4), True),
     ((4, 2, 0), True), ((4, 3, 5), True)],
)  # fmt: skip
def test_a_life_time_behind_serialize_accept_needs_the_version_with_the_fix(
    version: tuple[int, ...], works: bool
) -> None:
    found = without_effect("pgpool", SERIALIZED, version, stay=False)
    assert (found == []) == works
    for each in found:
        assert each.setting == "connection_life_time"
        assert (
            each.why
            == snapshot(
                {
                    "3.6.22": (
                        "connection_life_time = 60 has no effect with serialize_accept in"
                        " version 3.6.22; it has since 3.6.23"
                    ),
                    "4.1.3": (
                        "connection_life_time = 60 has no effect with serialize_accept in"
                        " version 4.1.3; it has since 4.1.4"
                    ),
                }
            )[".".join(map(str, version))]
        )
        assert each.limit_ms == 60_000


@pytest.mark.parametrize(
    ("kind", "settings", "stay", "expected"),
    [
        ("pgpool", {"serialize_accept": "on"}, False, ["serialize_accept"]),
        ("pgpool", {**SERIALIZED, "child_life_time": "5min"}, False, ["serialize_accept"]),
        ("pgpool", {"connection_life_time": "30"}, False, []),
        ("pgpool", {"connection_life_time": "30s"}, True, ["connection_life_time"]),
        (
            "pgpool",
            {"connection_life_time": "30", "connection_cache": "off"},
            False,
            ["connection_life_time"],
        ),
        ("pgpool", {}, True, []),
        ("pgbouncer", {"server_idle_timeout": "30"}, True, ["server_idle_timeout"]),
        ("pgbouncer", {"server_idle_timeout": "30"}, False, []),
        (
            "pgbouncer",
            {"server_idle_timeout": "30", "pool_mode": "transaction"},
            True,
            [],
        ),
        (
            "pgbouncer",
            {"server_idle_timeout": "30", "pool_mode": "transaction", "min_pool_size": "20"},
            True,
            ["server_idle_timeout"],
        ),
        ("pgbouncer", {"min_pool_size": "30"}, False, ["min_pool_size"]),
        (
            "pgbouncer",
            {"reserve_pool_size": "5", "reserve_pool_timeout": "0"},
            False,
            ["reserve_pool_size"],
        ),
        ("haproxy", {"timeout client": "1h"}, True, []),
    ],
)
def test_what_has_no_effect_is_told(
    kind: str, settings: dict[str, str], stay: bool, expected: list[str]
) -> None:
    found = without_effect(kind, settings, (4, 3, 5), stay=stay)
    assert [each.setting for each in found] == expected


@pytest.mark.parametrize(
    ("group", "stays"),
    [
        ({"connection": "persistent"}, True),
        ({"pool": {"max": 4}}, True),
        ({"pool": {"max": 4, "idle_timeout": "5s"}}, False),
        ({"connection": "per-transaction"}, False),
        ({"connection": {"reconnect_every": 5, "slow_start": True}}, False),
    ],
)
def test_clients_that_stay_are_known(group: dict[str, object], stays: bool) -> None:
    assert clients_stay({"clients": [{"name": "web"}, {"name": "other", **group}]}) == stays
