"""The catalogue: every entry says what it costs, and a change is the same whoever asks of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hostile_names import tokens
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec import Struct

from pgdyno.compare.change import compare_question
from pgdyno.drill.faults import fault_names
from pgdyno.investigate._proposals import assessed_proposals
from pgdyno.investigate._trials import remedy_question
from pgdyno.price._gain import price_question
from pgdyno.price.candidates import of_change
from pgdyno.price.remedies import candidates_of
from pgdyno.record.finding import Finding, Proposal
from pgdyno.remedy import Assessment, Circumstances, Remedy, assess, catalogue, circumstances
from pgdyno.results.investigate import InvestigateResult, Step, TriedRemedy
from pgdyno.scenario.story import chapter_change
from pgdyno.spec import Change, Spec, spec_from_fields
from pgdyno.spec.durability import severity, within
from pgdyno.spec.server_settings import ActiveSettings
from pgdyno.trial.question import Question

SYNC_STANDBY = {"standby": {"count": 1, "mode": "on"}}
DEFAULTS = Circumstances()


class Known(Struct, frozen=True):
    """A change and what is documented of it; ``spec`` has what is in force before it."""

    change: Change
    remedy: str | None
    durability_class: str = "D0"
    bound: str = "nothing is lost"
    faults: tuple[str, ...] = ("kill", "power")
    checkpoint_bound: bool = False
    needs: tuple[str, ...] = ("reload",)
    spec: dict[str, Any] | None = None

    def __str__(self) -> str:
        parts = {**self.change.settings, **self.change.spec, **self.change.pool_max}
        told = ",".join(f"{k}={v}" for k, v in parts.items()) or str(self.change.to_json())
        return f"{told} on {self.spec}" if self.spec else told


def put(**settings: str) -> Change:
    return Change(settings=settings)


def key(**keys: str) -> Change:
    return Change(spec={name.replace("__", "."): value for name, value in keys.items()})


ASYNC = {"server": {"settings": {"synchronous_commit": "off"}}}
KNOWN = [
    Known(put(commit_delay="100"), "commit-delay", faults=("power",)),
    Known(put(commit_delay="0"), "reset-setting",
          spec={"server": {"settings": {"commit_delay": "5000"}}}),
    Known(put(commit_delay="0", jit_above_cost="100000"), "reset-setting",
          spec={"server": {"settings": {"commit_delay": "5000", "jit_above_cost": "0"}}}),
    Known(put(jit="off"), "jit-off"),
    Known(put(plan_cache_mode="force_custom_plan"), "plan-cache-mode"),
    Known(put(max_parallel_workers_per_gather="0"), "no-parallel-workers"),
    Known(put(jit="on"), None),
    Known(Change(sql={"make": ("create index i on t (c)",), "undo": ("drop index i",)}), "own-sql",
          needs=("sql",)),
    Known(key(load__protocol="prepared"), "prepared-statements", needs=("client",)),
    Known(key(workload__init__partitions="8"), "partitions", needs=("rewrite",)),
    Known(key(workload__ingest="copy"), "ingest", needs=("client",)),
    Known(key(server__version="17"), "other-version", needs=("layout",)),
    Known(key(workload__update_last="t"), "update-last", needs=("client",)),
    Known(key(pooler__kind="pgbouncer", pooler__pool_mode="session"), "pooler", needs=("client",)),
    Known(key(front__max_total="50"), "front-pool", needs=("client",), spec={"front": {}}),
    Known(key(front__threads="50"), "front-connector", needs=("client",), spec={"front": {}}),
    Known(key(front__heap="1g"), "front-machine", needs=("client",), spec={"front": {}}),
    Known(key(front__prepare_threshold="5"), "prepared-statements", needs=("client",),
          spec={"front": {"prepare_threshold": 0}}),
    Known(key(front__prepare_threshold="0"), None, needs=("client",), spec={"front": {}}),
    Known(key(front__rewrite_batched_inserts="true"), "rewritten-batches", needs=("client",),
          spec={"front": {}}),
    Known(key(front__rewrite_batched_inserts="false"), None, needs=("client",),
          spec={"front": {"rewrite_batched_inserts": True}}),
    Known(key(kernel__dirty="10%"), "kernel-parameter", needs=("machine",)),
    Known(key(disk__data="loop:fs=xfs"), "data-disk", needs=("layout",),
          spec={"disk": {"data": "loop:fs=ext4"}}),
    Known(key(disk__data="loop:mount=barrier=0"), "no-barrier", "D2", "may be corrupt", ("power",),
          needs=("layout",), spec={"disk": {"data": "loop:fs=ext4"}}),
    Known(put(commit_siblings="0"), "commit-delay", faults=("power",)),
    Known(put(wal_sync_method="fdatasync"), "reset-setting", faults=("power",),
          spec={"server": {"settings": {"wal_sync_method": "open_sync"}}}),
    Known(put(wal_sync_method="fdatasync"), "wal-sync-method", "unknown", "not known:", ("power",),
          spec={"server": {"settings": {"wal_sync_method": "fsync_writethrough"}}}),
    Known(put(synchronous_commit="off"), "synchronous-commit-off", "D1", "(600 ms)"),
    Known(put(synchronous_commit="FALSE"), "synchronous-commit-off", "D1", "(600 ms)"),
    Known(put(Synchronous_Commit="0"), "synchronous-commit-off", "D1", "(600 ms)"),
    Known(put(synchronous_commit="off"), "synchronous-commit-off", "D1", "(3 s)",
          spec={"server": {"settings": {"wal_writer_delay": "1s"}}}),
    Known(put(synchronous_commit="off", wal_writer_delay="10"), "synchronous-commit-off", "D1",
          "(30 ms)"),
    Known(put(synchronous_commit="off"), "synchronous-commit-off", "D1", "after a failover",
          spec=SYNC_STANDBY),
    Known(put(synchronous_commit="off"), None, spec=ASYNC),
    Known(put(synchronous_commit="on"), None, spec=ASYNC),
    Known(put(wal_writer_delay="2s"), "synchronous-commit-off", "D1", "(6 s)", spec=ASYNC),
    Known(put(wal_writer_delay="10ms"), "wal-writer", spec=ASYNC),
    Known(put(wal_writer_delay="2s"), "wal-writer"),
    Known(put(synchronous_commit="local"), None),
    Known(put(synchronous_commit="remote_write"), None),
    Known(put(synchronous_commit="remote_apply"), None, spec=SYNC_STANDBY),
    Known(put(synchronous_commit="on"), "synchronous-commit-on", faults=("wal-device",),
          spec={"standby": {"count": 1, "mode": "remote_apply"}}),
    Known(put(synchronous_standby_names="ANY 1 (a, b)"), "synchronous-standbys-any",
          bound="nothing is lost if the standby that has received most", faults=("wal-device",),
          spec={"server": {"settings": {"synchronous_standby_names": "FIRST 1 (a, b)"}}}),
    Known(put(synchronous_commit="local"), "synchronous-commit-local", "D1",
          "at a failover the commits that the standby had not received are lost",
          ("wal-device",), spec=SYNC_STANDBY),
    Known(put(synchronous_commit="remote_write"), "synchronous-commit-remote-write", "D1",
          "when the standby's operating system crashes", ("wal-device",), spec=SYNC_STANDBY),
    Known(put(synchronous_standby_names=""), "synchronous-standbys-fewer", "D1", "at a failover",
          ("wal-device",), spec=SYNC_STANDBY),
    Known(key(standby__mode="async"), "synchronous-standbys-fewer", "D1", "at a failover",
          ("wal-device",), needs=("layout",), spec=SYNC_STANDBY),
    Known(key(standby__count="0"), "synchronous-standbys-fewer", "D0", "no standby to fail over",
          ("wal-device",), needs=("layout",), spec=SYNC_STANDBY),
    Known(put(fsync="of"), "fsync-off", "D3", "power cut the database may be", ("power",)),
    Known(put(fsync="on"), None, spec={"server": {"settings": {"fsync": "off"}}}),
    Known(put(full_page_writes="no"), "full-page-writes-off", "D2", "possibly without an error",
          ("power",), True),
    Known(put(full_page_writes="off"), "full-page-writes-off", "D2", "data checksums report",
          ("power",), True, spec={"server": {"checksums": True}}),
    Known(put(full_page_writes="off"), "full-page-writes-off", "D2", "there are no data checksums",
          ("power",), True, spec={"server": {"checksums": False}}),
    Known(put(full_page_writes="on"), None, checkpoint_bound=True,
          spec={"server": {"settings": {"full_page_writes": "off"}}}),
    Known(put(wal_compression="pglz"), "wal-compression", checkpoint_bound=True),
    Known(put(shared_buffers="1GB"), "shared-buffers", checkpoint_bound=True, needs=("restart",)),
    Known(put(bgwriter_delay="10ms"), "bgwriter", checkpoint_bound=True),
    Known(put(min_wal_size="2GB"), "checkpoint-distance", checkpoint_bound=True),
    Known(put(max_wal_size="8GB"), "checkpoint-distance", checkpoint_bound=True),
    Known(put(max_wal_size="256MB"), "wal-within-disk", checkpoint_bound=True),
    Known(put(checkpoint_timeout="1min"), "checkpoint-sooner", checkpoint_bound=True),
    Known(put(checkpoint_flush_after="0"), "flush-early", checkpoint_bound=True),
    Known(put(wal_buffers="64MB"), "wal-buffers", needs=("restart",)),
    Known(put(wal_sync_method="open_datasync"), "wal-sync-method", "unknown", "not known:",
          ("power",)),
    Known(put(wal_level="minimal"), "wal-level-minimal", "D0", "base backups taken before",
          needs=("restart",)),
    Known(put(zero_damaged_pages="1"), "zero-damaged-pages", "D2", "rows on a damaged page"),
    Known(put(ignore_checksum_failure="on"), "ignore-checksum-failure", "D2", "corruption"),
    Known(put(data_sync_retry="on"), "data-sync-retry", "D2", "data is lost", needs=("restart",)),
    Known(put(data_sync_retry="off"), None, needs=("restart",)),
    Known(put(work_mem="8MB"), "work-mem"),
    Known(put(work_mem="1MB"), None),
    Known(put(temp_buffers="8MB"), None, "D0", "temp_buffers is not in the catalogue", needs=()),
    Known(put(**{"some_extension.sync": "off"}), None, "unknown", "not known:", needs=()),
    Known(key(disk__wal="tmpfs:1GB"), "wal-on-tmpfs", "D3", "destroys the whole WAL",
          ("wal-device",), needs=("layout",)),
    Known(key(disk__wal="tmpfs:1GB"), "wal-on-tmpfs-sync-standby", "D0", "survives the crash",
          ("wal-device",), needs=("layout",), spec=SYNC_STANDBY),
    Known(key(disk__wal="tmpfs:1GB"), "wal-on-tmpfs-async-standby", "D1", "it received every",
          ("wal-device",), needs=("layout",),
          spec={"standby": {"count": 1, "mode": "remote_write"}}),
    Known(key(disk__wal="plain:/mnt/fast"), None, needs=("layout",)),
    Known(key(workload__unlogged="true"), "unlogged-tables", "D3", "leaves the tables empty",
          ("kill",), needs=("rewrite",)),
    Known(key(load__protocol="simple"), None, needs=("client",)),
    Known(Change(pool_max={"clients": 4}), "pool-size", needs=("client",)),
    Known(Change(table_options={"t": {"fillfactor": "80"}}), "fillfactor", needs=("table",)),
    Known(Change(indexes={"t": "a"}), "create-index", needs=("index",)),
    Known(Change(clients={"clients": 8}), "client-count", needs=("client",)),
]  # fmt: skip


def spec_of(known: Known) -> Spec:
    return spec_from_fields(known.spec or {})


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_what_a_change_is(known: Known) -> None:
    said = assess(known.change, circumstances(spec_of(known)))
    assert (said.remedy.id if said.remedy else None) == known.remedy
    assert said.durability_class == known.durability_class
    assert known.bound in said.bound
    assert said.faults == known.faults
    assert said.checkpoint_bound == known.checkpoint_bound
    assert said.needs == known.needs


def facts(said: Assessment | None) -> tuple[Any, ...]:
    assert said is not None
    return said.durability_class, said.bound, said.faults, said.checkpoint_bound


def questions(change: Change, spec: Spec, remedy: str) -> dict[str, Question]:
    """What each command would ask of ``change``; ``remedy`` is what a finding proposes it as."""
    server = circumstances(spec)
    finding = Finding(
        id="a",
        status="found",
        sentence="",
        proposals=(Proposal(remedy_id=remedy, change=change, predicted_ratio=1.5, why=""),),
    )
    (proposed,) = assessed_proposals([finding], Change(), spec, server)
    priced = of_change(change, server)
    asked = {
        "investigate": remedy_question(proposed, Change(), slice_s=1, step=1),
        "compare": compare_question(change, server, title="", seconds=1),
        "price": price_question(priced, 1),
    }
    fields = {"title": "a", "vary": change.spec, "settings": change.settings}
    if change == Change(settings=change.settings, spec=change.spec):
        told = spec_from_fields({"story": [fields]}).story[0]
        asked["story"] = compare_question(chapter_change(told), server, title="", seconds=1)
    return asked


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_every_command_asks_the_same_question(known: Known) -> None:
    asked = questions(known.change, spec_of(known), known.remedy or "pool-size")
    same = {facts(each.assessment) for each in asked.values()}
    assert len(same) == 1, same
    assert {each.checkpoint_bound for each in asked.values()} == {known.checkpoint_bound}
    assert {each.labels["durability_class"] for each in asked.values()} == {known.durability_class}
    assert len({(str(each.a), str(each.b)) for each in asked.values()}) == 1


@pytest.mark.parametrize("decision", ["kept", "offered"])
def test_an_investigation_prices_what_it_kept_as_what_it_tried(decision: str) -> None:
    change = put(synchronous_commit="off")
    asked = questions(change, Spec(), "synchronous-commit-off")["investigate"]
    remedy = TriedRemedy(
        id="synchronous-commit-off", title="a", change=change.to_json(), durability_class="D1"
    )
    kept = change if decision == "kept" else Change()
    step = Step.model_construct(decision=decision, remedy=remedy)
    result = InvestigateResult.model_construct(kept=kept.to_json(), steps=(step,))
    (candidate,) = candidates_of(result, DEFAULTS)
    assert facts(candidate.assessment) == facts(asked.assessment)


@pytest.mark.parametrize("remedy", catalogue().values(), ids=lambda remedy: remedy.id)
def test_every_remedy_is_priced(remedy: Remedy) -> None:
    for text in (remedy.summary, remedy.bound or "nothing", remedy.price):
        assert text
        assert not text.endswith(".")
    loses_nothing = not remedy.bound or remedy.bound.startswith("nothing is lost")
    assert (remedy.durability_class == "D0") == loses_nothing
    names = remedy.settings or remedy.keys or remedy.table_options
    assert names or remedy.pools or remedy.clients or remedy.indexes or remedy.sql
    assert {*remedy.faults} <= {*fault_names()}


def test_every_remedy_is_what_some_change_amounts_to() -> None:
    reached = {known.remedy for known in KNOWN}
    others = {
        "wal-on-tmpfs-async-standby", "autovacuum-pace", "checkpoint-spread", "checksums-off",
        "archive-mode-off", "archive-command-off", "ignore-invalid-pages",
        "allow-system-table-mods", "autovacuum-faster", "autovacuum-threshold",
    }  # fmt: skip
    changes = [
        key(disk__wal="tmpfs:1GB", standby__count="1"),
        put(autovacuum_vacuum_cost_limit="100"),
        put(autovacuum_vacuum_cost_limit="1000"),
        put(autovacuum_vacuum_scale_factor="0.01"),
        put(checkpoint_completion_target="0.5"),
        key(server__checksums="false"),
        put(ignore_invalid_pages="on"),
        put(allow_system_table_mods="on"),
    ]
    found = {remedy.id for change in changes for remedy in assess(change, DEFAULTS).remedies}
    archiving = Circumstances(ActiveSettings({"archive_mode": "on", "archive_command": "cp"}))
    for change in (put(archive_mode="off"), put(archive_command="")):
        found |= {remedy.id for remedy in assess(change, archiving).remedies}
    assert found == others
    assert reached | others >= {*catalogue()}


@pytest.mark.parametrize(
    ("before", "change", "remedy"),
    [
        ({}, {"autovacuum_vacuum_cost_limit": "200"}, None),
        ({}, {"autovacuum_vacuum_cost_delay": "0"}, "autovacuum-faster"),
        ({}, {"autovacuum_vacuum_cost_delay": "20"}, "autovacuum-pace"),
        ({"autovacuum_vacuum_cost_delay": "0"}, {"autovacuum_vacuum_cost_limit": "100"}, None),
        ({"vacuum_cost_limit": "50"}, {"autovacuum_vacuum_cost_limit": "100"}, "autovacuum-faster"),
    ],
)
def test_the_pace_of_vacuum_goes_up_or_down(
    before: dict[str, str], change: dict[str, str], remedy: str | None
) -> None:
    said = assess(put(**change), Circumstances(ActiveSettings(before)))
    assert [each.id for each in said.remedies] == ([] if remedy is None else [remedy])


def test_the_pace_of_one_table() -> None:
    slow = Change(table_options={"t": {"autovacuum_vacuum_cost_limit": "10"}})
    assert [each.id for each in assess(slow, DEFAULTS).remedies] == ["autovacuum-pace"]


def test_only_what_is_written_again_has_a_fillfactor() -> None:
    loose = Change(table_options={"t": {"fillfactor": "80"}})
    assert not assess(loose, DEFAULTS).acts_on_existing_rows
    assert assess(put(temp_buffers="8MB"), DEFAULTS).acts_on_existing_rows


def test_several_remedies_in_one_change() -> None:
    said = assess(
        put(full_page_writes="off", synchronous_commit="off", temp_buffers="8MB"), DEFAULTS
    )
    assert said.durability_class == "D2"
    assert [remedy.id for remedy in said.remedies] == [
        "full-page-writes-off",
        "synchronous-commit-off",
    ]
    assert "torn pages" in said.bound
    assert "wal_writer_delay (600 ms)" in said.bound
    assert said.faults == ("kill", "power")
    assert said.uncatalogued == ("temp_buffers",)


def test_fewer_standbys_to_wait_for() -> None:
    two = Circumstances(ActiveSettings({"synchronous_standby_names": "ANY 2 (a, b, c)"}))
    said = assess(put(synchronous_standby_names="ANY 1 (a, b, c)"), two)
    assert said.durability_class == "D1"
    assert said.bound == snapshot(
        "at a failover the commits that only lost standbys had received are lost; nothing is lost"
        " if the server itself recovers"
    )
    assert assess(put(synchronous_standby_names="ANY 3 (*)"), two).durability_class == "D0"


def test_a_durability_budget_covers_what_loses_no_more() -> None:
    assert within("D0", "D0")
    assert not within("D1", "D0")
    assert within("D1", "D1")
    assert not within("unknown", "D2")
    assert within("unknown", "D3")
    assert severity("D0") < severity("unknown") < severity("D1") < severity("D3")


def test_lines_of_a_setting() -> None:
    change = put(max_wal_size="16GB", checkpoint_timeout="15min")
    assert assess(change, DEFAULTS).lines_to_apply() == [
        "ALTER SYSTEM SET max_wal_size = '16GB';",
        "ALTER SYSTEM SET checkpoint_timeout = '15min';",
        "SELECT pg_reload_conf();",
    ]
    assert assess(change, DEFAULTS).lines_to_undo(put(max_wal_size="1GB")) == [
        "ALTER SYSTEM SET max_wal_size = '1GB';",
        "ALTER SYSTEM RESET checkpoint_timeout;",
        "SELECT pg_reload_conf();",
    ]


def test_lines_of_settings_some_of_which_need_a_restart() -> None:
    lines = assess(put(wal_buffers="64MB"), DEFAULTS).lines_to_apply()
    assert lines == snapshot(
        [
            "ALTER SYSTEM SET wal_buffers = '64MB';",
            "-- then restart PostgreSQL: wal_buffers is read only at server start",
        ]
    )
    both = assess(put(wal_buffers="64MB", commit_delay="10"), DEFAULTS).lines_to_apply()
    assert both[2:] == ["SELECT pg_reload_conf();", lines[1]]
    other = assess(put(temp_buffers="8MB"), DEFAULTS).lines_to_undo()
    assert other[-1] == snapshot("SELECT pg_reload_conf();  -- or restart, if the setting needs it")


def test_lines_of_a_pool() -> None:
    change = Change(pool_max={"web": 16})
    (line,) = assess(change, DEFAULTS).lines_to_apply()
    assert "web" in line
    assert "maximumPoolSize=16" in line
    undone = assess(change, DEFAULTS).lines_to_undo(Change(pool_max={"web": 2}))
    assert "maximumPoolSize=2" in undone[0]


def test_lines_of_a_table() -> None:
    said = assess(Change(table_options={"public.Order lines": {"fillfactor": "80"}}), DEFAULTS)
    assert said.lines_to_apply() == ['ALTER TABLE public."Order lines" SET (fillfactor = 80);']
    assert said.lines_to_undo() == ['ALTER TABLE public."Order lines" RESET (fillfactor);']


def test_lines_of_an_index() -> None:
    said = assess(Change(indexes={"public.Order lines": '(customer, "At")'}), DEFAULTS)
    assert said.lines_to_apply() == [
        'CREATE INDEX CONCURRENTLY "Order lines_customer_At_idx" ON public."Order lines"'
        ' (customer, "At");'
    ]
    assert said.lines_to_undo() == ['DROP INDEX CONCURRENTLY public."Order lines_customer_At_idx";']


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_values_cannot_break_out_of_their_quotes(value: str) -> None:
    line = assess(put(commit_delay=value), DEFAULTS).lines_to_apply()[0]
    *_, name, equals, text, end = tokens(line)
    assert (name, equals) == (("name", "commit_delay"), ("other", "="))
    assert (text, end) == (("text", value), ("other", ";"))


@given(st.text().filter(lambda name: not re.fullmatch("[A-Za-z0-9_.]*", name)))
def test_names_that_are_no_settings_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a setting"):
        assess(put(**{name: "1"}), DEFAULTS).lines_to_apply()
