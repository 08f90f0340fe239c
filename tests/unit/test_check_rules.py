"""The rules of a check on rows made up: each with its fault, and with what looks like it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from check_runs import DAY_S, GB, commits, finding, found, judged, setting_rows
from inline_snapshot import snapshot

from pgdyno.looks.look import MissingLook, looks
from pgdyno.remedy import catalogue
from pgdyno.rules.rule import rules_of_loads, rules_of_looks
from pgdyno.server.sql_files import queries_of

NAMES = {look.name for look in looks()}
QUERIES = [look.name for look in looks() if look.read is None and not look.option]
MB = 1 << 20
Given = Mapping[str, Any]


def table(**columns: Any) -> dict[str, Any]:
    """A row of the look ``table``: nothing is wrong with it."""
    row = {
        "relation": "public.orders", "system": False, "pages": 10_000, "rows": 1e6,
        "toast_pages": None, "options": None, "n_ins": 1_000_000, "n_upd": 0, "n_del": 0,
        "n_dead": 0, "n_hot": 0, "n_newpage": 0, "n_live": 1_000_000, "vacuumed_s": DAY_S,
    }  # fmt: skip
    assert columns.keys() <= row.keys()
    return row | columns


def unused(**columns: Any) -> dict[str, Any]:
    """A row of the look ``unused_index``."""
    row = {"relation": "public.orders", "index_name": "public.orders_note", "pages": 1000,
           "n_written": 5000, "scanned_s": None}  # fmt: skip
    return row | columns


def duplicate(**columns: Any) -> dict[str, Any]:
    """A row of the look ``duplicate_index``."""
    row = {"relation": "public.orders", "kept": "public.orders_a", "index_name": "public.orders_b",
           "pages": 1000, "enforces": False, "n_written": 5000}  # fmt: skip
    return row | columns


def prefix(**columns: Any) -> dict[str, Any]:
    """A row of the look ``prefix_index``."""
    row = {"relation": "public.orders", "index_name": "public.orders_a", "pages": 1000,
           "longer": "public.orders_ab", "longer_pages": 1500}  # fmt: skip
    return row | columns


def slot(**columns: Any) -> dict[str, Any]:
    """A row of the look ``slot``, in use."""
    row = {"slot": "reports", "type": "logical", "active": True, "wal_status": "reserved",
           "kept_bytes": 1e6, "xmin_age": None, "catalog_xmin_age": 5}  # fmt: skip
    return row | columns


def standby(**columns: Any) -> dict[str, Any]:
    """A row of the look ``standby``, in step."""
    row = {"name": "second", "state": "streaming", "sync_state": "async", "replay_lag_s": 0.1,
           "behind_bytes": 1e5}  # fmt: skip
    return row | columns


def transaction(**columns: Any) -> dict[str, Any]:
    """A row of the look ``old_transaction``."""
    row = {"pid": 7, "database": "shop", "role": "app", "application": "psql", "state": "active",
           "transaction_s": 5.0, "state_s": 5.0, "xmin_age": 100, "query": "select 1"}  # fmt: skip
    return row | columns


def statement(**columns: Any) -> dict[str, Any]:
    """A row of the look ``statement``: a tenth of the work."""
    row = {
        "query": "select total from orders where id = $1", "calls": 1e6, "exec_ms": 1e6,
        "plan_ms": 0.0, "rows": 1e6, "wal_bytes": 1e6, "wal_fpi": 0.0, "blocks": 1e6,
        "temp_blocks": 0.0, "jit_functions": 0.0, "jit_ms": 0.0, "toplevel": True,
        "exec_ms_total": 1e7, "wal_bytes_total": 1e7, "blocks_total": 1e7, "statements": 400,
    }  # fmt: skip
    return row | columns


def autovacuum_off(**columns: Any) -> dict[str, Any]:
    """A row of the look ``autovacuum_off``."""
    row = {"relation": "public.queue", "pages": 100, "n_ins": 9000, "n_upd": 5000, "n_del": 0,
           "n_dead": 5000, "xid_age": 1000, "vacuumed_s": None}  # fmt: skip
    return row | columns


def with_setting(name: str, **columns: Any) -> list[dict[str, Any]]:
    """Rows of the look ``setting`` with other columns in one of them."""
    rows = [dict(row) for row in setting_rows({})]
    (row,) = [row for row in rows if row["name"] == name]
    row.update(columns)
    return rows


BUSY = {"statement_info": {"counters_s": 1e4}}
FAULTS: list[tuple[str, str, Given, str]] = [
    ("durability-off", "costs", {"settings": {"full_page_writes": "off"}}, "full_page_writes is"),
    ("developer-settings", "costs", {"settings": {"zero_damaged_pages": "on"}}, "emptied"),
    ("slow-commits", "costs", {"write_probe": commits(flush_ms=2.0)}, "2 ms for the flush"),
    ("slow-commits", "costs", {"write_probe": commits(network_ms=0.6)}, "0.6 ms for the network"),
    ("slow-commits", "costs", {"write_probe": commits(standby_ms=3.0)}, "3 ms for the standby"),
    ("commits-not-durable", "minor", {"settings": {"synchronous_commit": "off"}}, "the server"),
    ("commits-not-durable", "minor", {"override": [{"database": "", "role": "app",
     "name": "synchronous_commit", "setting": "off"}]}, "role app"),
    ("no-autovacuum", "costs", {"settings": {"track_counts": "off"}}, "track_counts is off"),
    ("no-autovacuum", "costs", {"autovacuum_off": [autovacuum_off()]}, "public.queue"),
    ("autovacuum-behind", "costs", {"table": [table(n_dead=500_000)]}, "public.orders"),
    ("memory-promised", "minor", {"settings": {"work_mem": "524288"}}, "100 connections"),
    ("memory-promised", "costs", {"settings": {"work_mem": "524288"},
     "changed": {"connection_state": {"sessions": 90}}}, "open"),
    ("large-shared-buffers", "minor", {"settings": {"shared_buffers": str(16 * GB // 8192),
     "effective_cache_size": str(20 * GB // 8192)}}, "50 %"),
    ("large-shared-buffers", "costs", {"settings": {"shared_buffers": str(26 * GB // 8192),
     "effective_cache_size": str(28 * GB // 8192)}}, "81 %"),
    ("small-shared-buffers-for-data", "costs", {"changed": {
        "relation_total": {"bytes": 40.0 * GB}, "database": {"blks_read": 4_000_000_000}}},
     "128 MB"),
    ("cache-size-estimate", "minor", {"settings": {"effective_cache_size": "8192"}}, "smaller"),
    ("cache-size-estimate", "minor", {"settings": {"effective_cache_size": "8388608"}}, "larger"),
    ("wal-disk-small", "costs", {"changed": {"disk_space": {"free_bytes": 100 * MB,
     "wal_dir_bytes": 64 * MB}}}, "164 MB"),
    ("wal-buffers-full", "costs", {"changed": {"wal_total": {"wal_buffers_full": 10**9}}}, "4 MB"),
    ("settings-without-effect", "minor", {"settings": {"commit_delay": "10",
     "commit_siblings": "0"}}, "each commit wait"),
    ("settings-without-effect", "minor", {"settings": {"commit_delay": "10",
     "synchronous_commit": "off"}}, "no effect"),
    ("settings-without-effect", "minor", {"publication": [{"publication": "p"}]}, "nothing"),
    ("settings-without-effect", "minor", {"settings": {"max_parallel_workers": "16"}}, "16"),
    ("restart-pending", "minor", {"settings": with_setting("max_connections",
     pending_restart=True)}, "max_connections"),
    ("configuration-errors", "will fail", {"file_error": [{"name": "x", "error": "bad value",
     "sourceline": 3, "file": "postgresql.conf"}]}, "postgresql.conf line 3 (x): bad value"),
    ("configuration-errors", "will fail", {"hba_error": [{"line_number": 9, "error": "odd"}]},
     "pg_hba.conf line 9"),
    ("timeouts-for-all", "minor", {"settings": {"statement_timeout": "5000"}}, "5 s"),
    ("logging-everything", "minor", {"settings": {"log_statement": "all"},
     "changed": {"database": {"transactions": 10**9}}}, "log_statement = all"),
    ("logging-everything", "costs", {"settings": {"log_min_duration_statement": "0"},
     "changed": {"database": {"transactions": 10**11}}}, "is written"),
    ("costly-extensions", "costs", {"settings": {"auto_explain.log_min_duration": "1000",
     "auto_explain.sample_rate": "1", "auto_explain.log_analyze": "on",
     "auto_explain.log_timing": "on"}}, "each node"),
    ("costly-extensions", "costs", {"settings": {"pg_stat_kcache.track": "top"}}, "kernel"),
    ("costly-extensions", "minor", {"settings": {"pg_stat_statements.max": "1000000"}},
     "1,000,000"),
    ("costly-extensions", "minor", {"settings": {"pg_wait_sampling.profile_period": "1"}}, "1 ms"),
    ("planner-switches", "minor", {"settings": [*setting_rows({}),
     {**setting_rows({})[0], "name": "enable_seqscan", "boot_val": "on", "setting": "off",
      "source": "configuration file"}]}, "enable_seqscan"),
    ("archive-without-command", "will fail", {"settings": {"archive_mode": "on",
     "archive_command": ""}}, "no archive_command"),
    ("unread-indexes", "costs", {"unused_index": [unused()]}, "public.orders_note"),
    ("unread-indexes", "minor", {"unused_index": [unused(n_written=0)]}, "7.81 MB"),
    ("duplicate-indexes", "costs", {"duplicate_index": [duplicate()]}, "public.orders_b"),
    ("duplicate-indexes", "minor", {"duplicate_index": [duplicate(pages=2)]}, "16 kB"),
    ("prefix-indexes", "minor", {"prefix_index": [prefix()]}, "may not be needed"),
    ("invalid-indexes", "costs", {"invalid_index": [{"relation": "public.orders",
     "index_name": "public.half", "pages": 10, "written": True}]}, "public.half"),
    ("no-room-for-hot", "costs", {"table": [table(n_upd=2_000_000, n_hot=200_000,
     n_newpage=1_800_000)]}, "90 %"),
    ("no-room-for-hot", "costs", {"table": [table(n_upd=2_000_000, n_hot=200_000,
     n_newpage=None)]}, "10 % of 2,000,000 updates were HOT"),
    ("toast-compression", "minor", {"toast": [{"relation": "public.doc", "columns": "body",
     "toast_pages": 200_000, "n_toast_ins": 9}]}, "pglz"),
    ("checksum-failures", "will fail", {"changed": {"database": {"checksum_failures": 1}}},
     "1 page"),
    ("checksums-off", "minor", {"settings": {"data_checksums": "off"},
     "changed": {"relation_total": {"bytes": 5.0 * GB}}}, "checksums"),
    ("temp-files-total", "costs", {"changed": {"database": {"temp_bytes": 10**14,
     "temp_files": 10**6}}}, "95.4 MB"),
    ("lost-slots", "costs", {"slot": [slot(active=False, wal_status="lost", kept_bytes=None)]},
     "has lost its WAL"),
    ("idle-slots", "will fail", {"slot": [slot(active=False, kept_bytes=5e9)]}, "disk is full"),
    ("idle-slots", "costs", {"slot": [slot(active=False, kept_bytes=5e9)],
     "settings": {"max_slot_wal_keep_size": "10240"}}, "up to 10 GB"),
    ("absent-sync-standby", "will fail", {"settings": {"synchronous_standby_names": "second"}},
     "no commit returns"),
    ("absent-sync-standby", "will fail", {"settings": {"synchronous_standby_names": "any 2 (*)"},
     "standby": [standby(sync_state="quorum")]}, "2 synchronous"),
    ("standby-behind", "costs", {"standby": [standby(behind_bytes=5e9)]}, "4.66 GB"),
    ("paused-recovery", "costs", {"recovery": [{"pause_state": "paused", "replayed_s": 60.0,
     "waiting_bytes": 1e7}], "server": {"in_recovery": True}}, "paused"),
    ("forgotten-transactions", "minor", {"old_transaction": [transaction(
        state="idle in transaction", state_s=20.0)]}, "process 7"),
    ("forgotten-transactions", "costs", {"old_transaction": [transaction(
        state="idle in transaction", state_s=400.0)]}, "psql of app"),
    ("old-transactions", "minor", {"old_transaction": [transaction(transaction_s=9000.0)]},
     "2 h 30 min"),
    ("sessions-per-core", "minor", {"changed": {"connection_state": {"sessions": 500}}}, "8 cores"),
    ("compiled-statements", "costs", {"statement": [statement(jit_ms=8e5)]}, "80 %"),
    ("heavy-statement", "minor", {"statement": [statement(exec_ms=9e6)], "changed": BUSY},
     "90 % of the time"),
    ("heavy-statement", "minor", {"statement": [statement(), statement(
        query="update orders set note = $1", wal_bytes=9e6)], "changed": BUSY}, "90 % of the WAL"),
    ("evicted-statements", "minor", {"changed": {"statement_info": {"dealloc": 9000}},
     "settings": {"pg_stat_statements.max": "5000"}}, "5000"),
    ("memory-killed", "minor", {"changed": {"kernel": {"oom_kill": 2}}}, "2 programs"),
    ("commit-limit", "will fail", {"changed": {"kernel": {"overcommit_memory": 2,
     "Committed_AS": 15.5 * GB}}}, "refuses more"),
    ("server-in-swap", "costs", {"changed": {"process_memory": {"swap_bytes": 500 * MB}}},
     "500 MB"),
    ("late-writeback", "minor", {"changed": {"kernel": {"Dirty": 2 * GB}}}, "2 GB"),
    ("huge-page-stalls", "minor", {"changed": {"kernel": {"compact_stall": 10**7}}}, "3.9 times"),
    ("zone-reclaim", "costs", {"changed": {"kernel": {"zone_reclaim_mode": 1}}}, "is 1"),
    ("device-settings", "minor", {"changed": {"block_device": {"read_ahead_kb": 8192}}}, "8192 kB"),
    ("device-settings", "minor", {"changed": {"block_device": {"scheduler": "bfq"}}}, "bfq"),
    ("unsafe-file-system", "costs", {"host": {"filesystem": {"wal": {"type": "tmpfs",
     "options": "rw"}}}}, "in memory"),
    ("unsafe-file-system", "costs", {"host": {"filesystem": {"data": {"type": "ext4",
     "options": "rw,nobarrier"}}}}, "barriers"),
    ("unsafe-file-system", "minor", {"host": {"filesystem": {"data": {"type": "ext4",
     "options": "rw,data=writeback"}}}}, "writeback"),
]  # fmt: skip
"""Rule, severity, what is wrong, and a part of the sentence."""

LOOK_ALIKES: list[tuple[str, Given]] = [
    ("slow-commits", {"write_probe": commits(flush_ms=0.39)}),
    ("no-autovacuum", {"autovacuum_off": [autovacuum_off(n_dead=10)]}),
    # Overdue only since a minute, less than twice the trigger, by its own option, or turned off.
    ("autovacuum-behind", {"table": [table(n_dead=500_000, vacuumed_s=60.0)]}),
    ("autovacuum-behind", {"table": [table(n_dead=390_000)]}),
    ("autovacuum-behind", {"table": [table(n_dead=500_000,
     options="autovacuum_vacuum_scale_factor=0.3")]}),
    ("autovacuum-behind", {"table": [table(n_dead=500_000, options="autovacuum_enabled=false")]}),
    ("small-shared-buffers-for-data", {"changed": {"relation_total": {"bytes": 40.0 * GB}}}),
    ("small-shared-buffers-for-data", {"changed": {"database": {"blks_read": 4_000_000_000}}}),
    # The default is larger than the memory of a small machine, which nobody chose.
    ("cache-size-estimate", {"host": {"memory_bytes": 2 * GB}}),
    ("settings-without-effect", {"publication": [{"publication": "p"}],
     "settings": {"wal_level": "logical"}}),
    ("settings-without-effect", {"settings": {"commit_delay": "10"}}),
    ("logging-everything", {"settings": {"log_statement": "all"}}),
    ("logging-everything", {"settings": {"log_statement": "ddl"},
     "changed": {"database": {"transactions": 10**9}}}),
    ("costly-extensions", {"settings": {"auto_explain.log_min_duration": "-1",
     "auto_explain.sample_rate": "1", "auto_explain.log_analyze": "on",
     "auto_explain.log_timing": "on", "pg_stat_statements.max": "5000"}}),
    ("timeouts-for-all", {"settings": with_setting("statement_timeout", setting="5000",
     source="user")}),
    ("archive-without-command", {"settings": {"archive_mode": "on", "archive_command": ""},
     "server": {"in_recovery": True}}),
    ("archive-without-command", {"settings": {"archive_mode": "on", "archive_command": "(set)"}}),
    ("unread-indexes", {"unused_index": [unused(pages=100)]}),
    ("duplicate-indexes", {"duplicate_index": [duplicate(enforces=True)]}),
    ("prefix-indexes", {"prefix_index": [prefix(longer_pages=5000)]}),
    ("no-room-for-hot", {"table": [table(n_upd=2_000_000, n_hot=200_000, n_newpage=100_000)]}),
    ("no-room-for-hot", {"table": [table(n_upd=900_000, n_hot=0, n_newpage=900_000)]}),
    ("no-room-for-hot", {"table": [table(n_upd=2_000_000, n_hot=0, n_newpage=2_000_000,
     options="fillfactor=80")]}),
    ("toast-compression", {"toast": [{"relation": "public.doc", "columns": None,
     "toast_pages": 200_000, "n_toast_ins": 9}]}),
    ("checksums-off", {"settings": {"data_checksums": "off"}}),
    ("lost-slots", {"slot": [slot()]}),
    ("idle-slots", {"slot": [slot(kept_bytes=5e9)]}),
    ("idle-slots", {"slot": [slot(active=False)]}),
    ("absent-sync-standby", {"settings": {"synchronous_standby_names": "ANY 1 (second, third)"},
     "standby": [standby(sync_state="quorum")]}),
    ("absent-sync-standby", {"settings": {"synchronous_standby_names": "second",
     "synchronous_commit": "local"}}),
    ("standby-behind", {"standby": [standby(behind_bytes=5e9, state="backup")]}),
    ("paused-recovery", {"recovery": [{"pause_state": "not paused", "replayed_s": 60.0,
     "waiting_bytes": 1e7}]}),
    ("restart-pending", {"settings": with_setting("shared_buffers", pending_restart=True,
     source="command line")}),
    ("forgotten-transactions", {"old_transaction": [transaction(state="idle in transaction")]}),
    ("old-transactions", {"old_transaction": [transaction(transaction_s=9000.0, xmin_age=None)]}),
    ("sessions-per-core", {"changed": {"connection_state": {"sessions": 150}}}),
    ("compiled-statements", {"statement": [statement(jit_ms=8e5)], "settings": {"jit": "off"}}),
    ("compiled-statements", {"statement": [statement(jit_ms=1e5)]}),
    ("heavy-statement", {"statement": [statement(exec_ms=9e6)]}),
    ("heavy-statement", {"statement": [statement()], "changed": BUSY}),
    ("commit-limit", {"changed": {"kernel": {"overcommit_memory": 2, "Committed_AS": 5 * GB}}}),
    ("huge-page-stalls", {"changed": {"kernel": {"compact_stall": 10**7,
     "thp_enabled": "madvise"}}}),
    ("late-writeback", {"changed": {"kernel": {"Dirty": 2 * GB,
     "dirty_background_bytes": 256 * MB}}}),
    ("device-settings", {"changed": {"block_device": {"read_ahead_kb": 8192,
     "rotational": True}}}),
]  # fmt: skip
"""Rule, and what looks like its fault and is none."""


def test_each_rule_reads_looks_that_there_are_and_each_look_is_read() -> None:
    used = {name for rule in rules_of_looks() for name in rule.looks or ()}
    assert used <= NAMES
    assert NAMES - used == set(), "looked at for nothing"


def test_each_rule_has_a_fault_here() -> None:
    assert {rule.id for rule in rules_of_looks()} == {fault[0] for fault in FAULTS}


def test_rules_are_covered_by_those_of_loads() -> None:
    known = {rule.id for rule in rules_of_loads()}
    assert {name for rule in rules_of_looks() for name in rule.covered_by} <= known


@pytest.mark.parametrize("name", QUERIES)
def test_each_version_has_one_query_of_a_look(name: str) -> None:
    ranges = [(query.first, query.last) for query in queries_of("looks") if query.name == name]
    assert ranges
    assert ranges[0][0] == 14
    assert ranges[-1][1] is None, "a newer server than any known is asked too"
    for (_, last), (first, _) in pairwise(ranges):
        assert last is not None
        assert first == last + 1


def test_each_query_explains_itself() -> None:
    for query in (*queries_of("looks"), *queries_of("check")):
        text = query.file.read_text()
        assert text.startswith("-- ")
        assert all(len(line) <= 100 for line in text.splitlines()), query.name


def test_a_server_that_is_well_has_no_fault() -> None:
    judgement = judged()
    assert found(judgement) == {}
    assert judgement.not_looked_at == ()
    skipped = {each.id for each in judgement.findings if each.status == "skipped"}
    assert skipped <= {"heavy-statement"}


@pytest.mark.parametrize(
    ("rule", "severity", "given", "words"),
    FAULTS,
    ids=[f"{fault[0]}-{number}" for number, fault in enumerate(FAULTS)],
)
def test_a_fault_is_found_and_no_other(rule: str, severity: str, given: Given, words: str) -> None:
    faults = found(judged(**given))
    assert rule in faults
    fault = faults.pop(rule)
    assert fault.severity == severity
    assert words in fault.sentence
    assert not fault.sentence.endswith(".")
    assert fault.evidence or rule == "evicted-statements"
    assert fault.false_positives
    assert fault.advice or fault.commands
    assert {proposal.remedy_id for proposal in fault.proposals} <= catalogue().keys()
    # What comes with it by its nature.
    faults.pop("commits-not-durable" if "synchronous_commit" in str(given) else "", None)
    assert faults == {}


@pytest.mark.parametrize(
    ("rule", "given"),
    LOOK_ALIKES,
    ids=[f"{each[0]}-{number}" for number, each in enumerate(LOOK_ALIKES)],
)
def test_a_look_alike_is_no_fault(rule: str, given: Given) -> None:
    assert finding(judged(**given), rule).status == "cleared"


def test_what_could_not_be_looked_at_is_listed_and_not_judged() -> None:
    denied = MissingLook("permission denied", "GRANT pg_monitor TO dba")
    for look in NAMES:
        judgement = judged(missing={look: denied})
        entries = [each for each in judgement.not_looked_at if each.why == denied.why]
        assert [each.allow for each in entries] == [denied.allow]
        of_it = {rule.id for rule in rules_of_looks() if look in (rule.looks or ())}
        assert of_it <= set(entries[0].rules)
        assert {each.id for each in judgement.findings if each.status == "skipped"} & of_it or (
            look in ("file_error", "hba_error", "server")
        )
        assert found(judgement) == {}


def test_what_another_machine_hides_is_listed() -> None:
    judgement = judged(host={"same_host_as_server": False})
    (entry,) = judgement.not_looked_at
    assert "memory-promised" in entry.rules
    assert "machine" in entry.allow
    assert found(judgement) == {}


def test_young_statistics_judge_no_index() -> None:
    judgement = judged(server={"counters_s": 3600.0}, unused_index=[unused()])
    assert finding(judgement, "unread-indexes").status == "skipped"
    (entry,) = judgement.not_looked_at
    assert entry.why == snapshot("the statistics began 1 h ago")


def test_a_hidden_setting_is_listed() -> None:
    rows = setting_rows({}, hidden=["max_wal_size"])
    judgement = judged(settings=rows)
    assert finding(judgement, "idle-slots").status == "skipped"
    assert [each.subject for each in judgement.not_looked_at] == ["the setting max_wal_size"]


@pytest.mark.parametrize(
    ("server", "allows"),
    [({"superuser": True}, ""), ({"superuser": False}, "GRANT pg_read_all_settings TO the role")],
)
def test_no_grant_is_proposed_to_a_superuser(server: dict[str, Any], allows: str) -> None:
    judgement = judged(settings=setting_rows({}, hidden=["max_wal_size"]), server=server)
    assert [each.allow for each in judgement.not_looked_at] == [allows]


@pytest.mark.parametrize(("known", "grant"), [("/srv/pg", False), (None, True)])
def test_a_data_directory_elsewhere_needs_no_right(known: str | None, grant: bool) -> None:
    judgement = judged(host={"filesystem": {}}, server={"data_directory": known})
    (entry,) = judgement.not_looked_at
    assert entry.rules == ("unsafe-file-system",)
    assert ("GRANT" in entry.allow) == grant


def test_a_fault_that_a_signature_found_is_not_said_twice() -> None:
    given: Given = {"slot": [slot(active=False, kept_bytes=5e9)]}
    assert "idle-slots" in found(judged(**given))
    judgement = judged(**given, found_before=["slot-holds-wal"])
    assert "idle-slots" not in {each.id for each in judgement.findings}
