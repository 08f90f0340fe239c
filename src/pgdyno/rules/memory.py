"""The memory of the machine."""

from __future__ import annotations

from pgdyno.facts.sight import Sight, measured
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, percent, size
from pgdyno.record.finding import Skip
from pgdyno.rules.rule import Cleared, Found, rule

BUFFERS_BYTES_MIN = 8 << 30
TABLE_PART = 512


@rule(
    "huge-pages",
    false_positives="sessions that each touch a small part of the buffers",
)
def huge_pages(s: Situation) -> Found | Cleared:
    """Huge pages: large shared_buffers in pages of 4 kB need a page table for each session.

    Trigger: shared_buffers of at least ``BUFFERS_BYTES_MIN`` without huge pages: by
    huge_pages_status from version 17, before that only where huge_pages is off, since "try" does
    not say what became of it.

    Threshold: each session that touches all buffers has a page table of 1/512 of their size, 16 MB
    for 8 GB (x86-64, 8 bytes for 4 kB); with hundreds of sessions that is as much as the buffers.
    Nothing is claimed of the response time: misses of the TLB are not measured.
    """
    buffers = s.settings.size_bytes("shared_buffers")
    if buffers is None:
        raise Skip("shared_buffers is not known")
    status, wanted = s.settings.text("huge_pages_status"), s.settings.text("huge_pages")
    sessions = _sessions(s)
    tables_bytes = buffers / TABLE_PART * sessions
    evidence = [
        s.evidence("shared_buffers", float(buffers), "bytes", "at least 8 GB"),
        s.evidence("huge_pages", wanted, ""),
        s.evidence("huge_pages_status", status, ""),
        s.evidence("page tables of all sessions, at most", tables_bytes, "bytes"),
    ]
    if buffers < BUFFERS_BYTES_MIN:
        return Cleared("shared_buffers are too small for huge pages to matter", evidence)
    if status == "on":
        return Cleared("shared memory is in huge pages", evidence)
    if status is None and wanted != "off":
        raise Skip("whether huge pages are in use is shown from version 17 on")
    return Found(
        sentence=(
            f"shared_buffers of {size(buffers)} are not in huge pages: the page"
            f" tables of {sessions} sessions take up to {size(tables_bytes)}"
        ),
        share=0.0,
        removable_share=0.0,
        confidence=0.5,
        evidence=evidence,
        advice="reserve huge pages (vm.nr_hugepages, see shared_memory_size_in_huge_pages)",
    )


def _sessions(s: Situation) -> int:
    """Return how many sessions the load can keep busy; of the load of others, those connected."""
    if s.sessions_max:
        return s.sessions_max
    used = s.run.series("metric_connection", s.slice_ids)["used"]
    return int(max(used, default=0))


STALLS_PER_S_MIN = 1.0


@rule(
    "huge-page-stalls",
    looks=("kernel",),
    false_positives="other programs on the machine that wait, and not the server",
)
def huge_page_stalls(sight: Sight) -> Found | Cleared:
    """Transparent huge pages: processes wait while the kernel moves memory to make them.

    Trigger: transparent huge pages are always on, and processes waited for compaction at least once
    a second on average since the machine was started. Threshold: ours; PostgreSQL's documentation
    (huge_pages) discourages them, since some users had slow servers on some versions of Linux. With
    the setting alone, and no wait to see, nothing is wrong. It is minor.
    """
    row = sight.row("kernel")
    if row.get("thp_enabled") is None or "compact_stall" not in row or not row["uptime_s"]:
        raise Skip("this kernel does not show transparent huge pages")
    per_s = row["compact_stall"] / row["uptime_s"]
    evidence = [
        measured("transparent huge pages", row["thp_enabled"], "", "always"),
        measured("defrag", row["thp_defrag"], ""),
        measured("waits for compaction", per_s, "count/s", f"at least {STALLS_PER_S_MIN:g}/s"),
    ]
    if row["thp_enabled"] != "always" or per_s < STALLS_PER_S_MIN:
        return Cleared("no process waits for transparent huge pages", evidence)
    return Found(
        sentence=(
            f"processes wait {figure(per_s)} times a second while the kernel moves memory to make"
            " transparent huge pages"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        commands=["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"],
    )


@rule(
    "memory-killed",
    looks=("kernel",),
    false_positives="programs in a container of their own, which reached the container's limit",
)
def memory_killed(sight: Sight) -> Found | Cleared:
    """The kernel has killed programs because the memory was full.

    Trigger: the machine counts at least one such kill since it was started (oom_kill in
    /proc/vmstat). Threshold: none. If a process of the server is killed, all sessions end and the
    server recovers as after a crash. It is minor, since the count does not say whose process it
    was. PostgreSQL's documentation ("Managing Kernel Resources") advises vm.overcommit_memory = 2,
    so that allocations fail instead.
    """
    row = sight.row("kernel")
    if "oom_kill" not in row:
        raise Skip("this kernel does not count kills")
    kills = row["oom_kill"]
    evidence = [
        measured("programs killed", kills, "count", "at least 1"),
        measured("vm.overcommit_memory", row.get("overcommit_memory"), ""),
    ]
    if not kills:
        return Cleared("the kernel has killed no program because the memory was full", evidence)
    strict = row.get("overcommit_memory") == 2
    return Found(
        sentence=(
            f"the kernel has killed {counted(kills, 'program', 'programs')} because the memory was"
            f" full, in {duration(row['uptime_s'])}; a server of which it kills a process recovers"
            " as after a crash"
        ),
        severity="minor",
        confidence=0.5,
        evidence=evidence,
        advice="the kernel's log names what was killed; lower what takes the memory",
        commands=[] if strict else ["sysctl -w vm.overcommit_memory=2 vm.overcommit_ratio=90"],
    )


_WORKERS = "autovacuum_max_workers"


@rule(
    "memory-promised",
    looks=("setting", "connection_state"),
    false_positives="connections that are never at work at the same time",
)
def memory_promised(sight: Sight) -> Found | Cleared:
    """More memory promised than there is: shared_buffers, and work_mem of all connections.

    Trigger: shared_buffers, one work_mem for each connection, and the memory of all autovacuum
    workers come to more than the memory that the server may use, of its control group where that
    has a limit. It costs something with the connections that are open now; with all of
    max_connections it is minor.

    Threshold: db-triage alarms where the worst case exceeds the memory. A statement may take
    work_mem several times (hash_mem_multiplier, each sort), so this is no upper bound.
    """
    memory = float(sight.host["memory_bytes"])
    buffers, work = sight.setting("shared_buffers").bytes, sight.setting("work_mem").bytes
    fixed = buffers + _of_workers(sight)
    open_now = sum(row["sessions"] for row in sight.rows("connection_state"))
    most = sight.setting("max_connections").number
    evidence = [
        measured("memory that the server may use", memory, "bytes"),
        measured("shared_buffers", buffers, "bytes"),
        measured("memory of autovacuum workers", fixed - buffers, "bytes"),
        measured("work_mem", work, "bytes"),
        measured("connections open", open_now, "count"),
        measured("max_connections", most, "count"),
        measured("all of it with max_connections", fixed + most * work, "bytes",
                 "more than the memory"),
    ]  # fmt: skip
    if fixed + most * work <= memory:
        return Cleared("buffers and work_mem of all connections fit in memory", evidence)
    now = fixed + open_now * work > memory
    sessions = open_now if now else most
    return Found(
        sentence=(
            f"shared_buffers, autovacuum and one work_mem of {size(work)} for each of"
            f" {figure(sessions)} connections {'that are open ' if now else ''}come to"
            f" {size(fixed + sessions * work)}; the server may use {size(memory)}"
        ),
        severity="costs" if now else "minor",
        confidence=0.6,
        evidence=evidence,
        advice=(
            "lower work_mem for all and raise it for the role or the statement that needs it; lower"
            " max_connections, with a pooler in front"
        ),
    )


def _of_workers(sight: Sight) -> float:
    own = sight.setting("autovacuum_work_mem")
    each = own if own.number > 0 else sight.setting("maintenance_work_mem")
    return each.bytes * sight.setting(_WORKERS).number


FREE_SHARE = 0.1


@rule(
    "commit-limit",
    looks=("kernel",),
    false_positives="memory that is promised and was never going to be used, as before",
)
def commit_limit(sight: Sight) -> Found | Cleared:
    """The kernel is about to refuse memory, since it promises no more than there is.

    Trigger: vm.overcommit_memory is 2, and less than ``FREE_SHARE`` of CommitLimit is not promised
    yet. Threshold: ours; a tenth is gone with a few large sorts. Statements then fail with "out of
    memory", and new sessions cannot be started.
    """
    row = sight.row("kernel")
    if row.get("overcommit_memory") != 2:
        return Cleared("the kernel does not limit what it promises")
    limit, promised = row["CommitLimit"], row["Committed_AS"]
    free = 1 - promised / limit
    evidence = [
        measured("CommitLimit", limit, "bytes"),
        measured("Committed_AS", promised, "bytes"),
        measured("not promised", free, "share", f"less than {percent(FREE_SHARE)}"),
    ]
    if free >= FREE_SHARE:
        return Cleared(f"{percent(free)} of the memory that may be promised is left", evidence)
    return Found(
        sentence=(
            f"the kernel has promised {size(promised)} of {size(limit)} and refuses more:"
            " statements"
            " will fail with out of memory, and new sessions cannot start"
        ),
        severity="will fail",
        confidence=0.7,
        evidence=evidence,
        advice="lower shared_buffers, work_mem or the number of sessions, or add swap",
        commands=["sysctl -w vm.overcommit_ratio=90"],
    )


SWAPPED_BYTES_MIN = 64 << 20


@rule(
    "server-in-swap",
    looks=("kernel", "process_memory"),
    false_positives="sessions that have been idle for days",
)
def server_in_swap(sight: Sight) -> Found | Cleared:
    """Memory of the server's processes is in swap.

    Trigger: at least ``SWAPPED_BYTES_MIN`` of its processes. Threshold: ours; less than that is
    pages that were used at the start alone. A page that a statement needs again takes a read from
    the disk.
    """
    swapped = sight.row("process_memory")["swap_bytes"]
    kernel = sight.row("kernel")
    evidence = [
        measured("memory of the server in swap", swapped, "bytes",
                 f"at least {size(SWAPPED_BYTES_MIN)}"),
        measured("vm.swappiness", kernel.get("swappiness"), ""),
        measured("memory available on the machine", kernel.get("MemAvailable"), "bytes"),
    ]  # fmt: skip
    if swapped < SWAPPED_BYTES_MIN:
        return Cleared("the server's memory is not in swap", evidence)
    return Found(
        sentence=f"{size(swapped)} of the server's memory are in swap",
        severity="costs",
        confidence=0.7,
        evidence=evidence,
        advice=(
            "find what takes the memory; huge pages for shared_buffers cannot be swapped, and a low"
            " vm.swappiness keeps sessions in memory rather than the file cache"
        ),
        commands=["sysctl -w vm.swappiness=1"],
    )


@rule(
    "zone-reclaim",
    looks=("kernel",),
    false_positives="several servers, each bound to a node of its own",
)
def zone_reclaim(sight: Sight) -> Found | Cleared:
    """The kernel throws out cached files instead of using memory of another NUMA node.

    Trigger: vm.zone_reclaim_mode is not 0. Threshold: none; the kernel's documentation (sysctl/vm)
    says to leave it off where the file cache matters more than the distance of memory, as for file
    servers.
    """
    mode = sight.row("kernel").get("zone_reclaim_mode")
    if mode is None:
        raise Skip("this kernel does not have the setting")
    evidence = [measured("vm.zone_reclaim_mode", mode, "", "not 0")]
    if mode == 0:
        return Cleared("vm.zone_reclaim_mode is off", evidence)
    return Found(
        sentence=(
            f"vm.zone_reclaim_mode is {mode}: the kernel throws out cached files while other memory"
            " is free"
        ),
        severity="costs",
        confidence=0.7,
        evidence=evidence,
        commands=["sysctl -w vm.zone_reclaim_mode=0"],
    )
