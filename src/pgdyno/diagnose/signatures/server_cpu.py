"""Server CPU saturated: the cores are busy, most of them with PostgreSQL.

Trigger: the host's cores are at least ``BUSY_SHARE`` busy, and the server's processes use at least
``SERVER_SHARE`` of what is used. Where the server is on another machine, or its processes cannot be
seen, sessions seen running stand in for it: at least one per core.

Thresholds: one runnable session per core is RDS Performance Insights' line; 90 % busy is calibrated
by injection, loads with and without commits that wait on 2 cores.
"""

from __future__ import annotations

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.finding import Evidence, Proposal
from pgdyno.diagnose.signatures.connections import crowded
from pgdyno.diagnose.words import counted, figure, percent
from pgdyno.spec.change import Change

BUSY_SHARE = 0.9
SERVER_SHARE = 0.5
HOT_SHARE = 0.5
INDEX_CPU_SHARE = 0.05
"""Part of a transaction's CPU time that one update which is not HOT adds; an estimate on the low
side, as full pages gain room only when they are rewritten."""
UPDATES_COUNTED_MAX = 4.0
UPDATES_MIN = 1000


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
        sentence = (
            f"{cores} are {percent(cpu.busy_share)} busy, {figure(used)} of them with PostgreSQL"
            f" and {figure(s.generator_cores)} with the load generator"
        )
    if not saturated:
        return Cleared(sentence, evidence)
    parts: tuple[Part, ...] = ("running",) if crowded(s) else ("running", "ready")
    return Found(
        sentence=sentence,
        share=s.budget.share(*parts),
        liftable=1.0 - 1.0 / s.loop.ratio(cpu=0.5),
        confidence=0.9 if cpu is not None and used is not None else 0.5,
        evidence=evidence,
        causes=("connections",),
        proposals=_fillfactor(s),
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


def _fillfactor(s: Situation) -> list[Proposal]:
    """Room for HOT updates in tables whose updates mostly are not.

    The value is pg_gather's: 100 - 20 U / (U + I) + 20 H / (U + I), with U updates, I inserts and H
    HOT updates.
    """
    series = s.run.series("metric_table", s.slice_ids)
    proposals = []
    for table in sorted(set(series["relation"])):
        made = {
            name: s.run.delta("metric_table", name, s.slice_ids, where={"relation": table}) or 0.0
            for name in ("n_tup_upd", "n_tup_ins", "n_tup_hot_upd")
        }
        updates, hot = made["n_tup_upd"], made["n_tup_hot_upd"]
        if updates < UPDATES_MIN or hot >= HOT_SHARE * updates:
            continue
        rows = updates + made["n_tup_ins"]
        value = round(100 - 20 * updates / rows + 20 * hot / rows)
        moved = (updates - hot) / (s.throughput_tps * s.seconds)
        proposals.append(
            Proposal(
                "fillfactor",
                Change(table_options={str(table): {"fillfactor": str(value)}}),
                s.loop.ratio(cpu=1.0 - INDEX_CPU_SHARE * min(UPDATES_COUNTED_MAX, moved)),
                f"{percent(1 - hot / updates)} of the updates move to another page and touch every"
                " index",
            )
        )
    return [p for p in proposals if p.predicted_ratio >= WORTHWHILE_RATIO]


SIGNATURE = Signature(
    id="server-cpu",
    false_positives=(
        "other programs on the machine; a load generator on the same machine, whose part is named"
        " in the evidence; a hypervisor that steals CPU time"
    ),
    examine=examine,
)
