"""Server CPU saturated: the cores are busy, most of them with PostgreSQL.

Trigger: the host's cores are at least ``BUSY_SHARE`` busy, and the server's processes use at least
``SERVER_SHARE`` of what is used. Where the server is on another machine, or its processes cannot be
seen, sessions seen running stand in for it: at least one per core.

Thresholds: one runnable session per core is RDS Performance Insights' line; 90 % busy is calibrated
by injection, loads with and without commits that wait on 2 cores.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import cpu_parts, cpu_uses
from pgdyno.diagnose._crowding import crowded
from pgdyno.diagnose._fewer_clients import fewer_advice
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.quota import is_throttled
from pgdyno.diagnose.finding import Evidence
from pgdyno.diagnose.words import counted, figure, percent

BUSY_SHARE = 0.9
SERVER_SHARE = 0.5


def examine(s: Situation) -> Found | Cleared:
    """Examine the host's CPU usage and its share of the server."""
    evidence, running = _evidence(s), s.runnable
    cpu, used = s.cpu_if_recorded, s.server_cores
    cores = counted(s.cores, "core", "cores")
    if cpu is None or used is None:
        saturated = running >= s.cores
        sentence = f"{figure(running)} sessions are running on {cores}"
    else:
        saturated = cpu.busy_share >= BUSY_SHARE and used >= SERVER_SHARE * cpu.busy
        are, them = ("is", "it") if s.cores == 1 else ("are", "them")
        sentence = (
            f"{cores} {are} {percent(cpu.busy_share)} busy, {figure(used)} of {them} with"
            f" PostgreSQL and {figure(s.generator_cores)} with the load generator"
        )
    if not saturated:
        return Cleared(sentence, evidence, parts=("ready",))
    if is_throttled(s):
        return Cleared(f"{sentence}, but a CPU quota and not the machine is the limit", evidence)
    parts, named = cpu_parts(s), sum(cpu_uses(s).values())
    return Found(
        sentence=sentence,
        parts=parts,
        share=s.budget.share(*parts) * (1.0 - named),
        liftable=s.loop.ratio(cpu=0.5).lifted,
        confidence=0.9 if cpu is not None and used is not None else 0.5,
        evidence=evidence,
        causes=("connections", *cpu_uses(s)),
        advice=fewer_advice(s, 0.0) if crowded(s) else "",
    )


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
