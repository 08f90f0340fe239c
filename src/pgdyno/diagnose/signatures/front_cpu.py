"""Application CPU: the web application computes while the database waits for it.

Trigger: at least ``SHARE`` of the response time is the application's own, by its clock, and its
virtual machine keeps at least ``CORES_SHARE`` of the machine's cores busy. On busy cores its own
time includes the queue for them; where it is what keeps them busy, requests also queue for a core
before the application begins, which looks like the way there. Garbage collection is a finding of
its own (``front_collection``).

Thresholds: a fifth of the response time as for other layers; 30 % of the cores, where its CPU time
is no rounding error; calibrated by injection, a page that sorts in the application and one that
only reads.
"""

from __future__ import annotations

from pgdyno.diagnose._budget import Part
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.front import PageLoad
from pgdyno.diagnose.facts.sessions import SPARE_SHARE
from pgdyno.numbers import figure, percent

SHARE = 0.2
CORES_SHARE = 0.3
MOST = 0.5
"""Part of the load's CPU time from which on the cores are busy with the virtual machine."""
ADVICE = (
    "profile the application (Java Flight Recorder, async-profiler); compute less for each request,"
    " keep what was computed, let the database do what it does better, or add machines for the"
    " application: more connections would not help"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the application's own time with the response time, and its CPU with the cores."""
    load, parts = s.front_load, _parts(s)
    share, of_cores = s.budget.share(*parts), load.jvm_cores / s.cores
    own_ms = share * s.budget.response_ms
    evidence = [
        s.evidence("time in the application / response time", share, "share",
                   f"at least {percent(SHARE)}"),
        s.evidence("cores that the virtual machine uses", load.jvm_cores, "cores"),
        s.evidence("of the machine's cores", of_cores, "share", f"at least {percent(CORES_SHARE)}"),
        s.evidence("CPU time of the virtual machine per request",
                   1000 * load.jvm_cores / load.requests_s, "ms"),
    ]  # fmt: skip
    page = max(load.pages, key=_own_time)
    of_page = _own_time(page) / (sum(map(_own_time, load.pages)) or 1.0)
    most = "most of it" if of_page > 0.5 else "the largest part"
    spent = f"{figure(own_ms)} of {figure(s.budget.response_ms)} ms"
    if share < SHARE or of_cores < CORES_SHARE:
        return Cleared(
            f"the application itself takes {spent} and {figure(load.jvm_cores)} cores",
            evidence,
            parts=("application", "http"),
        )
    return Found(
        sentence=(
            f"the application itself takes {spent} and {figure(load.jvm_cores)} of"
            f" {figure(s.cores)} cores, {most} for {page.path}"
        ),
        parts=parts,
        liftable=1.0,
        confidence=0.8,
        evidence=evidence,
        advice=ADVICE,
    )


def _parts(s: Situation) -> tuple[Part, ...]:
    """Return the parts of the response time that are the application's."""
    cpu, own = s.cpu_if_recorded, s.own_cores
    if cpu is None or own is None or cpu.idle_share >= SPARE_SHARE:
        return ("application",)
    keeps_busy = s.front_load.jvm_cores >= MOST * own
    return ("application", "http", "connector") if keeps_busy else ("application",)


def _own_time(page: PageLoad) -> float:
    return page.requests_s * page.application_ms


SIGNATURE = Signature(
    id="front-cpu",
    false_positives=(
        "a virtual machine that has just started and still compiles; other programs that take the"
        " cores, so that the application waits for one"
    ),
    examine=examine,
    of_clients=True,
)
