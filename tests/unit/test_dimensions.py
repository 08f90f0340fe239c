"""Dimensions, their pure half: from a user's words to a change, to a spec, to a title."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pgdyno.dimension import change_of, dimensions, is_key, sides_of, spec_with, title_of
from pgdyno.errors import UsageError
from pgdyno.spec import Change, Spec, spec_from_fields

POOL = {"max": 2}
OPEN = {"rate": 200}


def spec_of(*groups: dict[str, Any], **fields: Any) -> Spec:
    return spec_from_fields({"clients": list(groups) or [{"name": "web"}], **fields})


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (Change(settings={"synchronous_commit": "off"}), "synchronous_commit = off"),
        (Change(settings={"commit_delay": "100"}), "commit_delay = 100us"),
        (Change(settings={"max_wal_size": "4GB"}), "max_wal_size = 4GB"),
        (
            Change(settings={"full_page_writes": "off"}, spec={"server.checksums": "true"}),
            "full_page_writes = off, with checksums",
        ),
        (Change(spec={"disk.wal": "tmpfs:2GB"}), "WAL on tmpfs:2GB"),
        (Change(spec={"disk.wal": "data"}), "WAL with the data"),
        (
            Change(spec={"standby.count": "1", "standby.mode": "on", "disk.wal": "tmpfs:2GB"}),
            "WAL on tmpfs:2GB, synchronous standby",
        ),
        (
            Change(spec={"standby.count": "2", "standby.mode": "remote_apply"}),
            "2 synchronous standbys (remote_apply)",
        ),
        (Change(spec={"standby.delay": "5ms"}), "standby.delay = 5ms"),
        (Change(spec={"standby.count": "0"}), "no standby"),
        (Change(spec={"workload.unlogged": "true"}), "unlogged tables"),
        (Change(spec={"workload.init.partitions": "8"}), "8 partitions"),
        (
            Change(spec={"workload.ingest": "copy", "workload.batch": "10"}),
            "COPY, 10 rows per commit",
        ),
        (Change(spec={"workload.init.partitions": "0"}), "no partitions"),
        (Change(table_options={"t": {"fillfactor": "90"}}), "t: fillfactor = 90"),
        (Change(indexes={"t": "a, b"}), "index on t (a, b)"),
        (Change(spec={"load.protocol": "simple"}), "load.protocol = simple"),
        (Change(pool_max={"web": 16}), "pool 16"),
        (Change(pool_max={"web": None}), "no pool"),
        (Change(clients={"web": 16}), "16 clients"),
        (Change(rate={"web": 2.0}), "rate × 2"),
        (Change(), ""),
    ],
)
def test_a_title_where_nothing_is_known_of_before(change: Change, title: str) -> None:
    assert title_of(change) == title


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (Change(pool_max={"web": 16}), "web: pool 2 → 16"),
        (Change(pool_max={"web": 4, "app": 4}), "web: pool 2 → 4, app: pool none → 4"),
        (Change(clients={"web": 16, "app": 16}), "clients 8 → 16"),
        (Change(rate={"app": 2.0}), "app: rate 200/s → 400/s"),
        (Change(settings={"wal_level": "logical"}), "wal_level = logical"),
        (Change(spec={"standby.mode": "on"}), "2 synchronous standbys"),
    ],
)
def test_a_title_says_what_was_before(change: Change, title: str) -> None:
    groups = {"name": "web", "pool": POOL}, {"name": "app", "arrival": OPEN}
    assert title_of(change, spec_of(*groups, standby={"count": 2})) == title


def test_a_single_group_is_not_named() -> None:
    assert title_of(Change(pool_max={"web": 16}), spec_of({"name": "web", "pool": POOL})) == (
        "pool 2 → 16"
    )


def test_a_spec_takes_every_part_of_a_change() -> None:
    change = Change(
        settings={"work_mem": "8MB"},
        pool_max={"web": 16, "app": None},
        clients={"web": 3},
        rate={"app": 1.5},
        table_options={"pgbench_accounts": {"fillfactor": "90"}},
        indexes={"pgbench_tellers": "(bid, TBalance)"},
        spec={
            "load.protocol": "simple",
            "clients.web.think": "1s",
            "disk.wal": "tmpfs:1GB",
            "server.checksums": "false",
            "standby.count": "1",
            "workload.unlogged": "true",
        },
    )
    spec = spec_of({"name": "web"}, {"name": "app", "arrival": OPEN, "pool": POOL})
    changed = spec_with(spec, change)
    web, app = changed.clients
    assert changed.server.settings == {"work_mem": "8MB"}
    assert (web.count, web.think_ms, web.pool and web.pool.max) == (3, 1000, 16)
    assert app.pool is None
    assert app.open_loop
    assert app.open_loop.rate == 300
    assert changed.workload.table_options == {"pgbench_accounts": {"fillfactor": "90"}}
    assert changed.workload.indexes == {"pgbench_tellers": "bid, tbalance"}
    assert changed.load.protocol == "simple"
    assert (changed.disk.wal, changed.server.checksums) == ("tmpfs:1GB", False)
    assert (changed.standby.count, changed.workload.unlogged) == (1, True)
    assert spec_with(spec, Change()) == spec
    assert spec.clients[0].count == 8, "the spec itself is as it was"


def test_words_become_settings_and_keys() -> None:
    change = change_of(
        {"pg_stat_statements.track": "all", "load.protocol": "simple"},
        settings={"load.shape": "round"},
        keys={"workload.table_options.public.t.fillfactor": "90", "workload.indexes.public.t": "a"},
    )
    assert change.settings == {"pg_stat_statements.track": "all", "load.shape": "round"}
    assert change.spec == {"load.protocol": "simple"}
    assert change.table_options == {"public.t": {"fillfactor": "90"}}
    assert change.indexes == {"public.t": "a"}
    assert not is_key("work_mem")


@pytest.mark.parametrize(
    ("key", "value", "baseline"),
    [
        ("clients.count", "8,3", "8"),
        ("clients.arrival.rate", "100, 200", "100"),
        ("load.protocol", "simple,prepared", "simple"),
        ("clients.latency_limit", "1s,20ms", "1s"),
        ("pooler.kind", "none,pgbouncer", "none"),
        ("clients.count", "3", None),
        ("clients.count", "8,3,5", None),
        ("workload.indexes.public.t", "a,b", None),
    ],
)
def test_two_values_are_those_of_both_sides(key: str, value: str, baseline: str | None) -> None:
    spec = spec_of({"name": "web", "arrival": OPEN})
    of_baseline, changed = sides_of({key: value}, spec)
    if baseline is None:
        assert (of_baseline, changed) == ({}, {key: value})
    else:
        assert of_baseline == {key: baseline}
        assert changed == {key: value.rpartition(",")[2].strip()}
        assert spec_with(spec, change_of(keys=of_baseline))


def test_a_plain_rate_is_told_to_the_running_load_and_one_with_a_shape_is_not() -> None:
    plain = spec_of({"name": "web", "arrival": OPEN})
    for key in ("clients.arrival.rate", "clients.web.arrival.rate"):
        assert change_of(keys={key: "400"}, spec=plain) == Change(rate={"web": 2.0})
    shaped = spec_of(
        {"name": "web", "arrival": {"rate": 200, "sine": {"amplitude": 1, "period": "9s"}}}
    )
    keys = {"clients.arrival.rate": "400"}
    assert change_of(keys=keys, spec=shaped) == Change(spec=keys)
    assert change_of(keys=keys) == Change(spec=keys), "the spec is not known"


@pytest.mark.parametrize(
    "key", ["server.kind", "load", "clients.app.think", "workload.scale", "workload.init.steps"]
)
def test_keys_that_cannot_differ(key: str) -> None:
    with pytest.raises(UsageError):
        change_of(keys={key: "1"}, spec=spec_of())
    with pytest.raises(UsageError):
        spec_with(spec_of(), Change(spec={key: "1"}))


def test_each_key_has_one_dimension() -> None:
    for key in ("disk.wal", "workload.unlogged", "workload.script", "standby.mode", "load.seed"):
        assert len([each.id for each in dimensions() if each.owns(key)]) == 1


def test_titles_and_specs_need_no_server() -> None:
    code = (
        "import sys; from pgdyno.dimension import *; dimensions()\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'psycopg', 'numpy', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
