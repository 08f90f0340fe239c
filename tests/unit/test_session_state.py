"""Settings of which sessions may keep something, and the time that new sessions take."""

from __future__ import annotations

import pytest

from pgdyno.compare.change import compare_question
from pgdyno.conduct import warm_up_seconds_max
from pgdyno.dimension.session_state import kept_by_sessions
from pgdyno.remedy import circumstances
from pgdyno.spec import Change, spec_from_fields

SERVER = circumstances(spec_from_fields({"clients": [{"count": 2}]}))


@pytest.mark.parametrize(
    "name",
    [
        *("debug_parallel_query", "plan_cache_mode", "enable_indexscan", "work_mem", "jit"),
        *("compute_query_id", "log_connections", "ssl_ciphers", "auto_explain.log_min_duration"),
        *("a_setting_of_a_later_version", "wal.of_an_extension"),
    ],
)
def test_sessions_may_keep_it(name: str) -> None:
    assert kept_by_sessions([name]) == [name]


@pytest.mark.parametrize(
    "name",
    [
        *("synchronous_commit", "commit_delay", "wal_compression", "max_wal_size", "fsync"),
        *("checkpoint_timeout", "autovacuum", "autovacuum_naptime", "vacuum_cost_limit"),
        *("bgwriter_delay", "archive_command", "wal_sender_timeout", "deadlock_timeout"),
        *("log_min_duration_statement", "track_io_timing", "Full_Page_Writes"),
    ],
)
def test_sessions_keep_nothing_of_it(name: str) -> None:
    assert kept_by_sessions([name]) == []


def pair_seconds(settings: dict[str, str]) -> float:
    change = Change(settings=settings)
    return compare_question(change, SERVER, title="it", seconds=2.0).pair_seconds


def test_pairs_are_planned_with_new_sessions_only_where_they_are_needed() -> None:
    plain = pair_seconds({"commit_delay": "100"})
    more = pair_seconds({"commit_delay": "100", "debug_parallel_query": "on"}) - plain
    assert 2 * warm_up_seconds_max(2.0) <= more < plain
