"""Temporary files: sorts, hashes and other work that does not fit in work_mem.

Trigger: sessions wait for at least ``WAITING_SHARE`` of the response time for temporary files
(IO:BufFileRead, BufFileWrite). Temporary files that cost no waits are evidence only: the kernel's
cache may take them at the price of a copy.

Threshold: calibrated by injection, sorts with work_mem of 64 kB on delayed files. The work_mem
proposed holds the mean temporary file (``temp_bytes / temp_files`` of pg_stat_database) times
``IN_MEMORY``, since a row takes more in memory than in a file.
"""

from __future__ import annotations

from pgdyno.diagnose._cpu_uses import ratio_of_own_work
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.numbers import figure, percent, size
from pgdyno.record.finding import Evidence, Proposal
from pgdyno.spec.change import Change
from pgdyno.stats.prediction import Prediction, between

WAITING_SHARE = 0.05
IN_MEMORY = 2.5
MEMORY_SHARE_MAX = 0.25
"""Most of the machine's memory that work_mem of all sessions may take."""
WORK_MEM_DEFAULT_KB = 4096


def examine(s: Situation) -> Found | Cleared:
    """Examine waits for temporary files, and their sizes."""
    share = s.budget.share("temp")
    each_bytes, per_s = _files(s)
    evidence = _evidence(s, share, each_bytes, per_s)
    if share < WAITING_SHARE:
        return Cleared(
            f"{percent(share)} of the response time is spent on temporary files",
            evidence,
            parts=("temp",),
        )
    proposals = _work_mem(s, share, each_bytes)
    each = f", {size(each_bytes)} each" if each_bytes else ""
    return Found(
        sentence=(
            f"{percent(share)} of the response time is spent on temporary files:"
            f" {figure(per_s)} are written per second{each}"
        ),
        parts=("temp",),
        liftable=s.loop.ratio(data=_without(s)).lifted,
        confidence=0.9,
        evidence=evidence,
        proposals=proposals,
        advice="" if proposals else "sort or hash less per statement; work_mem cannot hold it",
    )


def _files(s: Situation) -> tuple[float, float]:
    """Return the mean size of a temporary file in bytes, 0 if unknown, and files per second."""
    files, size = (
        s.run.delta("metric_database", column, s.slice_ids) or 0.0
        for column in ("temp_files", "temp_bytes")
    )
    return (size / files if files else 0.0), files / s.seconds


def _without(s: Situation) -> float:
    """Return the part of the waits for data that is left without temporary files."""
    temp, data = s.budget.parts_ms.get("temp", 0.0) / 1000, s.loop.data_s
    return max(0.0, 1.0 - temp / data) if data > 0 else 1.0


def _work_mem(s: Situation, share: float, each_bytes: float) -> list[Proposal]:
    memory = s.run.run.host.get("memory_bytes")
    if not each_bytes or not memory:
        return []
    now_kb = (s.settings.size_bytes("work_mem") or WORK_MEM_DEFAULT_KB * 1024) / 1024
    wanted_kb = 1024
    while wanted_kb < IN_MEMORY * each_bytes / 1024 or wanted_kb <= now_kb:
        wanted_kb *= 2
    if wanted_kb * 1024 * max(1, s.sessions_max) > MEMORY_SHARE_MAX * memory:
        return []
    ratio = _ratio(s)
    if ratio < WORTHWHILE_RATIO:
        return []
    why = f"a temporary file of {size(each_bytes)} would fit in memory"
    change = Change(settings={"work_mem": f"{wanted_kb // 1024}MB"})
    return [
        Proposal(remedy_id="work-mem", change=change, predicted_ratio=ratio, why=why, specific=True)
    ]


def _ratio(s: Situation) -> Prediction:
    """Return the predicted ratio without temporary files."""
    without = _without(s)
    return between(s.loop.ratio(data=without), ratio_of_own_work(s, without))


def _evidence(s: Situation, share: float, each_bytes: float, per_s: float) -> list[Evidence]:
    bar = f"at least {percent(WAITING_SHARE)}"
    return [
        s.evidence("waiting for temporary files / response time", share, "share", bar),
        s.evidence("temporary files", per_s, "per s"),
        s.evidence("size of a temporary file", each_bytes or None, "bytes"),
        s.evidence("bytes in temporary files", each_bytes * per_s / s.throughput_tps, "bytes"),
        s.evidence("work_mem", s.settings.text("work_mem"), ""),
    ]


SIGNATURE = Signature(
    id="temp-files",
    false_positives="cursors WITH HOLD and other results that are kept in files by intention",
    examine=examine,
)
