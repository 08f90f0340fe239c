"""The CPU: used by the server, by others, or withheld."""

from __future__ import annotations

from msgspec.structs import replace

from pgdyno.facts.budget import PART_MAX, Part
from pgdyno.facts.denied_time import (
    FOUND_SHARE,
    NOBODYS_SHARE,
    STOLEN_SHARE,
    THROTTLED_SHARE,
    OtherPrograms,
    Quota,
    is_crowded_out,
    is_stolen,
    is_throttled,
    other_programs_of,
    quota_of,
    stolen_share,
)
from pgdyno.facts.other_load import LOAD_DISTRUST_SHARE, LOAD_FOUND_SHARE, OtherLoad, foreign_load
from pgdyno.facts.sessions import round_trips_of, sessions
from pgdyno.facts.situation import Situation
from pgdyno.facts.slices import QUEUED_BUSY_SHARE
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._client_counts import fewer_advice
from pgdyno.rules._contention import crowded, is_crowd_the_cause
from pgdyno.rules._cpu_uses import cpu_parts, cpu_uses, ratio_without
from pgdyno.rules.rule import Cleared, Found, rule

BUSY_SHARE = 0.9
SERVER_SHARE = 0.5


@rule(
    "server-cpu",
    false_positives=(
        "other programs on the machine; a load generator on the same machine, whose part is named"
        " in the evidence; a hypervisor that steals CPU time"
    ),
)
def server_cpu(s: Situation) -> Found | Cleared:
    """Server CPU saturated: the cores are busy, most of them with PostgreSQL.

    Trigger: the host's cores are at least ``BUSY_SHARE`` busy, and the server's processes use at
    least ``SERVER_SHARE`` of what is used. Where the server is on another machine, or its processes
    cannot be seen, sessions seen running stand in for it: at least one per core.

    Cores that are a little less busy, at least ``QUEUED_BUSY_SHARE``, are a limit too where the
    queue for one takes at least ``PART_MAX`` of the response time: then it is that queue alone that
    is found. Two cores that are 70 % busy with work that comes at random let it wait about as long
    as it takes, and 2.6 times as long if they are 85 % busy (Erlang's formula for two servers).

    Thresholds: one runnable session per core is RDS Performance Insights' line; 90 % busy is
    calibrated by injection, loads with and without commits that wait on 2 cores.
    """
    evidence, sentence = _server_cpu_evidence(s), _sentence(s)
    parts, named = cpu_parts(s), sum(cpu_uses(s).values())
    if not _saturated(s):
        if not _queues(s):
            return Cleared(sentence, evidence, parts=("ready",))
        parts = ("ready",)
        sentence = (
            f"{sentence}: for {percent(s.budget.own_share(*parts))} of {s.budget.own_title}"
            " sessions wait for one"
        )
    elif is_throttled(s):
        return Cleared(f"{sentence}, but a CPU quota and not the machine is the limit", evidence)
    return Found(
        sentence=sentence,
        parts=parts,
        share=s.budget.share(*parts) * (1.0 - named),
        removable_share=s.loop.ratio(cpu=0.5).lifted,
        confidence=0.9 if _is_known(s) else 0.5,
        evidence=evidence,
        causes=(
            *("connections", "connection-per-transaction", "small-shared-buffers"),
            *cpu_uses(s),
        ),
        advice=fewer_advice(s, 0.0) if crowded(s) else "",
    )


def _is_known(s: Situation) -> bool:
    return s.cpu_if_recorded is not None and s.server_cores is not None


def _sentence(s: Situation) -> str:
    cpu, used = s.cpu_if_recorded, s.server_cores
    cores = counted(s.cores, "core", "cores")
    if cpu is None or used is None:
        return f"{figure(s.runnable)} sessions are running on {cores}"
    are, them = ("is", "it") if s.cores == 1 else ("are", "them")
    return (
        f"{cores} {are} {percent(cpu.busy_share)} busy, {figure(used)} of {them} with"
        f" PostgreSQL and {figure(s.generator_cores)} with the load generator"
    )


def _saturated(s: Situation) -> bool:
    return _is_busy(s, BUSY_SHARE) if _is_known(s) else s.runnable >= s.cores


def _queues(s: Situation) -> bool:
    """True if the load's own work lets sessions wait for a core, on cores that are not saturated;
    who denies them a core, or too many sessions at once, has a finding of its own."""
    own = "ready" in cpu_parts(s)
    return own and _is_busy(s, QUEUED_BUSY_SHARE) and s.budget.own_share("ready") >= PART_MAX


def _is_busy(s: Situation, share: float) -> bool:
    cpu, used = s.cpu_if_recorded, s.server_cores
    if cpu is None or used is None:
        return False
    return cpu.busy_share >= share and used >= SERVER_SHARE * cpu.busy


def _server_cpu_evidence(s: Situation) -> list[Evidence]:
    evidence = [
        s.evidence(
            "sessions running or ready to run", s.runnable, "sessions", "at least 1 per core"
        ),
        s.evidence("cores", s.cores, "count"),
        s.evidence("load generator", s.generator_cores, "cores"),
    ]
    cpu, used = s.cpu_if_recorded, s.server_cores
    if cpu is not None:
        evidence += [
            s.evidence("host CPU busy", cpu.busy_share, "share", f"at least {percent(BUSY_SHARE)}"),
            s.evidence("of it in the kernel", cpu.system_share, "share"),
            s.evidence("host CPU waiting for a disk", cpu.iowait / cpu.cores, "share"),
            s.evidence("stolen by the hypervisor", cpu.steal / cpu.cores, "share"),
        ]
    if cpu is not None and used is not None:
        bar = f"at least {percent(SERVER_SHARE)} of what is used"
        evidence.append(s.evidence("PostgreSQL's processes", used, "cores", bar))
    return evidence


DISTRUST_SHARE = 1 / 3
CPU_STEAL_ADVICE = (
    "move the virtual machine to a host that is less busy, or to a class of machines with dedicated"
    " cores or more CPU credits"
)


@rule(
    "cpu-steal",
    false_positives=(
        "a hypervisor that does not report stolen time, or reports as stolen what it had"
        " announced as the machine's share"
    ),
)
def cpu_steal(s: Situation) -> Found | Cleared:
    """Stolen CPU time: the hypervisor runs other machines while this one's processes are ready.

    Trigger: at least ``STOLEN_SHARE`` of the machine's CPU time was stolen (/proc/stat, "steal").
    Ranked behind every finding that owns more of the response time, as other programs are: what
    lifting that would gain is predicted for the cores that are left. Above ``DISTRUST_SHARE`` other
    findings are doubtful: every time measured is as long as the hypervisor made it. Distinct from
    saturated cores, which are busy with this machine's own work.

    Thresholds: a tenth as for other programs (see ``other_programs``), which take CPU time in the
    same way from inside; a third, because on many clouds some is stolen at any time. Made-up runs
    only: stealing cannot be injected from within a machine.
    """
    cpu = s.cpu
    share = stolen_share(s)
    evidence = [
        s.evidence(
            "stolen / CPU time of the machine",
            share,
            "share",
            f"at least {percent(STOLEN_SHARE)};"
            f" above {percent(DISTRUST_SHARE)} the measurement is not trusted",
        ),
        s.evidence("host CPU busy, stolen time included", cpu.busy_share, "share"),
    ]
    sentence = f"the hypervisor takes {percent(share)} of the CPU time of the server's machine"
    if not is_stolen(s):
        return Cleared(sentence, evidence)
    parts: tuple[Part, ...] = () if is_crowd_the_cause(s) else ("ready",)
    return Found(
        sentence=f"{sentence} for other machines",
        parts=parts,
        removable_share=share,
        confidence=0.9,
        evidence=evidence,
        masks_other_gains=True,
        causes_distrust=share > DISTRUST_SHARE,
        advice=CPU_STEAL_ADVICE,
    )


CPU_THROTTLED_ADVICE = (
    "raise the CPU quota of the server's control group or container (cpu.max, cpu.cfs_quota_us, or"
    " the orchestrator's CPU limit), or remove it"
)


@rule(
    "cpu-throttled",
    false_positives=(
        "other processes in the same control group that use its quota; bursts shorter than a"
        " period, which are cut short although the quota suffices on average"
    ),
)
def cpu_throttled(s: Situation) -> Found | Cleared:
    """CPU quota: the server's control group uses up its quota and is stopped until the next period.

    Trigger: of the periods of a control group that the server is in, or of one above it, at least
    ``THROTTLED_SHARE`` were cut short. Distinct from saturated cores: those of the machine may be
    idle meanwhile. A server on saturated cores with a quota that it does not reach is not
    throttled. Ranked behind every finding that owns more of the response time: what lifting that
    would gain is predicted for the cores of the quota.

    Threshold: that of the Kubernetes project's alert (see ``facts.denied_time``); confirmed by
    injection, a quota of half a core against 8 clients. Versions: control groups of version 1 and
    2, any PostgreSQL.
    """
    if s.server_cores is None:
        raise Skip("the server's processes cannot be seen from here")
    quota = quota_of(s)
    if quota is None:
        none = [s.evidence("CPU quotas of the server", 0, "count")]
        return Cleared("no CPU quota applies to the server", none)
    evidence = _cpu_throttled_evidence(s, quota)
    if quota.share < THROTTLED_SHARE:
        return Cleared(
            f"the server's CPU quota stops it in {percent(quota.share)} of the periods", evidence
        )
    ratio = _without_quota(s)
    return Found(
        sentence=(
            f"the server's CPU quota of {counted(s.cores, 'core', 'cores')} stops it in"
            f" {percent(quota.share)} of the periods; without it the model expects"
            f" {figure(ratio)} times the throughput"
        ),
        parts=("running", "ready"),
        removable_share=1.0 - 1.0 / ratio,
        confidence=0.9,
        evidence=evidence,
        masks_other_gains=True,
        advice=CPU_THROTTLED_ADVICE,
    )


def _without_quota(s: Situation) -> float:
    """Return the model's ratio of throughput with all of the machine's cores to that now."""
    wider = replace(s.loop, cores=max(s.cores_of_machine, s.loop.cores))
    return max(1.0, wider.predict() / s.loop.predict())


def _cpu_throttled_evidence(s: Situation, quota: Quota) -> list[Evidence]:
    evidence = [
        s.evidence(
            "periods cut short / periods of the quota",
            quota.share,
            "share",
            f"at least {percent(THROTTLED_SHARE)}",
        ),
        s.evidence("time lost, over all CPUs", quota.lost_s * 1000, "ms"),
        s.evidence("control group", quota.control_group, ""),
        s.evidence("cores by quota", s.cores, "cores"),
    ]
    if s.server_cores is not None:
        evidence.append(s.evidence("PostgreSQL's processes", s.server_cores, "cores"))
    return evidence


_NAMED_MAX = 5


@rule(
    "other-programs",
    false_positives=(
        "programs that belong to the load: a pooler that the run does not go through by name, an"
        " application server, a standby on the same machine; programs that only use what the"
        " server leaves idle"
    ),
)
def other_programs(s: Situation) -> Found | Cleared:
    """Other programs: something else on the server's machine takes the CPU that is measured.

    Trigger: programs that are neither the measured server's nor pgdyno's use at least
    ``FOUND_SHARE`` of the cores. Above ``load.max_other_programs`` other findings are doubtful, and
    the measurement is not trusted. If they use more than the load itself, the queue for a core is
    theirs. They rank behind every finding that owns more of the response time: what lifting that
    would gain is predicted for the crowded cores.

    Thresholds: a tenth is twice the largest difference seen between the CPU time of the cores and
    that of all processes, on a machine that does nothing else (5 % with one client, which wakes and
    sleeps all the time; 2 % with 1,000); a fifth, the other's default, changes what is measured by
    more than most of the remedies that pgdyno proposes for a saturated CPU.
    """
    others = other_programs_of(s.run, s.slice_ids)
    if others is None:
        raise Skip(
            "the CPU usage of the server's machine by process was not recorded for at least a"
            " second"
        )
    evidence = _other_programs_evidence(s, others)
    if others.share < FOUND_SHARE:
        return Cleared(
            f"other programs use {percent(others.share)} of"
            f" {counted(others.cores, 'core', 'cores')}{_of_nobody(others)}",
            evidence,
        )
    parts = _parts(s)
    return Found(
        parts=parts,
        sentence=f"{others.sentence}; stop them, or move them to another machine",
        removable_share=1.0 if parts else 0.0,
        confidence=0.9 if others.unseen < others.machine_used / 2 else 0.7,
        evidence=evidence,
        masks_other_gains=True,
        causes_distrust=others.causes_distrust,
    )


def _parts(s: Situation) -> tuple[Part, ...]:
    """Return the waits for a core if they are mostly the other programs', and nobody else's.

    A process that was woken by a message and has no core yet is not seen at work: on crowded cores
    the time between client and server beyond the round trips is a queue for a core too.
    """
    if not is_crowded_out(s) or is_throttled(s) or is_stolen(s) or is_crowd_the_cause(s):
        return ()
    return ("ready", "between") if _messages_wait(s) else ("ready",)


def _messages_wait(s: Situation) -> bool:
    """True if most of the time between client and server is neither round trips nor a pooler's."""
    try:
        trips_ms = round_trips_of(s).total_ms
        return not sessions(s).shared and trips_ms < s.budget.parts_ms.get("between", 0.0) / 2
    except Skip:
        return False


def _of_nobody(others: OtherPrograms) -> str:
    """Words for the cores that were busy with nothing that was seen."""
    if (others.nobodys or 0.0) < NOBODYS_SHARE * others.cores:
        return ""
    cores = counted(others.nobodys or 0.0, "core", "cores")
    return f"; {cores} were busy, and no process was seen to use them"


def _other_programs_evidence(s: Situation, others: OtherPrograms) -> list[Evidence]:
    bar = (
        f"at least {percent(FOUND_SHARE)};"
        f" above {percent(others.limit_share)} the measurement is not trusted"
    )
    return [
        s.evidence("other programs / cores", others.share, "share", bar),
        *(
            s.evidence(f"{each.name} × {each.processes}", each.cores, "cores")
            for each in others.programs[:_NAMED_MAX]
        ),
        *_of_the_rest(s, others),
        s.evidence("the kernel's threads and interrupts", others.kernel, "cores"),
    ]


def _of_the_rest(s: Situation, others: OtherPrograms) -> list[Evidence]:
    if others.nobodys is None:
        return [s.evidence("short-lived, or not visible from here", others.unseen, "cores")]
    return [
        s.evidence("others with little each", others.unseen, "cores"),
        s.evidence("busy, but with no process that was seen", others.nobodys, "cores"),
    ]


OTHER_LOAD_ADVICE = "let the other clients work when this load is low, or on another server"


@rule(
    "other-load",
    of_clients=True,
    false_positives=(
        "scripts that set another application_name; a pooler that gives its connections a name of"
        " its own; work in other databases that the load itself causes (dblink, a queue of jobs)"
    ),
)
def other_load(s: Situation) -> Found | Cleared:
    """Other load: the server works for others than pgdyno's clients while it is measured.

    Trigger: of the sessions at work, of the rows written, or of the time of the server's cores, at
    least ``LOAD_FOUND_SHARE`` are others'. Above ``LOAD_DISTRUST_SHARE`` other findings are
    doubtful, and the measurement is not trusted. Where no core is idle, the gain predicted is that
    of the time that their processes take.

    Thresholds: as for other programs. WAL is not counted by database, so rows written stand in for
    it. One session that computes, as VACUUM does, is few of the sessions and a whole core.
    """
    load = foreign_load(s.run, s.slice_ids)
    if load is None:
        raise Skip("other load on the server was not recorded")
    evidence = _other_load_evidence(s, load)
    if load.share < LOAD_FOUND_SHARE:
        return Cleared(f"other clients have {figure(load.at_work)} working sessions", evidence)
    found = Found(
        sentence=load.sentence,
        confidence=0.9,
        evidence=evidence,
        causes_distrust=load.causes_distrust,
    )
    part = cpu_uses(s).get("other-load", 0.0) if load.takes_cores else 0.0
    if not part:
        return found
    gain, parts = ratio_without(s, part), cpu_parts(s)
    return replace(
        found,
        parts=parts,
        share=part * s.budget.share(*parts),
        gain=gain,
        advice=OTHER_LOAD_ADVICE,
    )


def _other_load_evidence(s: Situation, load: OtherLoad) -> list[Evidence]:
    bar = (
        f"at least {percent(LOAD_FOUND_SHARE)};"
        f" above {percent(LOAD_DISTRUST_SHARE)} the measurement is not trusted"
    )
    return [
        s.evidence("others' sessions / working sessions", load.sessions_share, "share", bar),
        s.evidence("rows written by others / rows written", load.rows_share, "share", bar),
        s.evidence("cores used by others / cores", load.cores_share, "share", bar),
        s.evidence("working sessions of others", load.at_work, "sessions"),
        s.evidence("transactions in other databases", load.transactions_s, "tps"),
        *(
            s.evidence("WAL of all clients", wal.bytes / s.seconds, "bytes/s")
            for wal in [s.wal_if_recorded]
            if wal is not None
        ),
    ]
