"""Server CPU saturated: the cores are busy, most of them with PostgreSQL.

Trigger: the host's cores are at least ``BUSY_SHARE`` busy, and the server's processes use at least
``SERVER_SHARE`` of what is used. Where the server is on another machine, or its processes cannot be
seen, sessions seen running stand in for it: at least one per core.

Cores that are a little less busy, at least ``QUEUED_BUSY_SHARE``, are a limit too where the queue
for one takes at least ``PART_MAX`` of the response time: then it is that queue alone that is found.
Two cores that are 85 % busy with work that comes at random let it wait 2.6 times as long as it
takes (Erlang's formula for two servers).

Thresholds: one runnable session per core is RDS Performance Insights' line; 90 % busy is calibrated
by injection, loads with and without commits that wait on 2 cores.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import cpu_parts, cpu_uses
from pgdyno.diagnose._crowding import crowded
from pgdyno.diagnose._fewer_clients import fewer_advice
from pgdyno.diagnose._named import PART_MAX
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.quota import is_throttled
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence

BUSY_SHARE = 0.9
QUEUED_BUSY_SHARE = 0.85
SERVER_SHARE = 0.5


def examine(s: Situation) -> Found | Cleared:
    """Examine the host's CPU usage and its share of the server."""
    evidence, sentence = _evidence(s), _sentence(s)
    parts, named = cpu_parts(s), sum(cpu_uses(s).values())
    if not _saturated(s):
        if not _queues(s):
            return Cleared(sentence, evidence, parts=("ready",))
        parts = ("ready",)
        sentence = (
            f"{sentence}: for {percent(s.budget.share(*parts))} of the response time sessions wait"
            " for one"
        )
    elif is_throttled(s):
        return Cleared(f"{sentence}, but a CPU quota and not the machine is the limit", evidence)
    return Found(
        sentence=sentence,
        parts=parts,
        share=s.budget.share(*parts) * (1.0 - named),
        liftable=s.loop.ratio(cpu=0.5).lifted,
        confidence=0.9 if _is_known(s) else 0.5,
        evidence=evidence,
        causes=("connections", *cpu_uses(s)),
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
    return own and _is_busy(s, QUEUED_BUSY_SHARE) and s.budget.share("ready") >= PART_MAX


def _is_busy(s: Situation, share: float) -> bool:
    cpu, used = s.cpu_if_recorded, s.server_cores
    if cpu is None or used is None:
        return False
    return cpu.busy_share >= share and used >= SERVER_SHARE * cpu.busy


def _evidence(s: Situation) -> list[Evidence]:
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


SIGNATURE = Signature(
    id="server-cpu",
    false_positives=(
        "other programs on the machine; a load generator on the same machine, whose part is named"
        " in the evidence; a hypervisor that steals CPU time"
    ),
    examine=examine,
)
