"""The cost of being woken, from the quickest executions of the load's statements.

A session that gets a statement waits for its client most of the time, and the client for its
answer: both are woken, on a core that was idle or did something else, with caches that others have
filled. The quickest executions (``QUICK_PERCENTILE``) were least so: session and client took turns
on warm cores, and their time is the CPU time of both. Calibrated with ``select 1`` of 8 clients on
2 cores that others used too, microseconds of CPU time of server and generator together:

    transactions per second    100    400   2,000   8,000   52,000
    each                       129     99      70      49       15
    of which the generator      91     50      34      26        5
    quickest executions         51     42      25      15       15

So a round trip in company takes ``ROUND_TRIP_CPU_S``, and a script's quickest statement, often
``begin``, shows by how much the quickest executions are still too slow. TPC-B without waits for
flushes: 398 us at 200 a second, 318 at 1,000, and 160 at most, for which the quickest executions at
1,000 gave 175.

What a transaction takes beyond that, without the part of flushes and files, is the cost of being
woken: at most ``WOKEN_CPU_S`` for each answer, and at least the generator's part beyond
``GENERATOR_CPU_S``. That part also shows where all executions of a statement wait, so that its
quickest tells nothing.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.facts.model import ClosedLoop
from pgdyno.facts.sessions import QUICK_PERCENTILE
from pgdyno.facts.slices import Facts
from pgdyno.spec.sql_text import is_commit

WOKEN_CPU_S = 85e-6
GENERATOR_CPU_S = 5e-6
ROUND_TRIP_CPU_S = 15e-6


class _StatementTimes(Struct, frozen=True):
    """Seconds of the statements of a mean transaction."""

    count: float
    mean_s: float
    quick_s: float
    """Their sum if each took as long as its quickest executions do."""


def with_waking(loop: ClosedLoop, s: Facts) -> ClosedLoop:
    """Return ``loop`` with its cost of being woken; as it is if the statements were not timed.
    Where sessions queue for the cores, these never rest, but the generator waits for answers."""
    statements = _statements(s, loop.cpu_s)
    if statements is None:
        return loop
    most_s = WOKEN_CPU_S * statements.count
    company_cpu_s = ROUND_TRIP_CPU_S * statements.count
    generator_s = s.generator_cores / s.throughput_tps - GENERATOR_CPU_S * statements.count
    generator_s = min(max(generator_s, 0.0), most_s)
    if loop.saturated:
        return replace(loop, generator_woken_s=generator_s, company_cpu_s=company_cpu_s)
    own_cpu_s = loop.cpu_s * (1.0 - loop.flush_cpu - loop.data_cpu)
    beyond_quick_s = max(0.0, own_cpu_s - statements.quick_s)
    slower_s = statements.mean_s - statements.quick_s - beyond_quick_s
    return replace(
        loop,
        generator_woken_s=generator_s,
        server_woken_s=max(0.0, min(beyond_quick_s, most_s) - generator_s),
        company_cpu_s=company_cpu_s,
        queued_s=max(0.0, slower_s - loop.waits_s),
    )


def _statements(s: Facts, cpu_s: float) -> _StatementTimes | None:
    """Return the statements of a mean transaction; None without their times, or if they overlap.

    COMMIT waits for its flush each time, and what takes longer than the CPU time of a transaction,
    ``cpu_s``, waits as well. Without that, they take as long as the quickest statement.
    """
    timed = [each for each in s.statements if each.service.count]
    if not timed or s.overlapping_groups or s.is_http:
        return None
    done = s.throughput_tps * s.seconds
    quick_ns = [each.service.percentile(QUICK_PERCENTILE) for each in timed]
    late_ns = max(0.0, min(quick_ns) - 1e9 * ROUND_TRIP_CPU_S)
    least_ns = [
        (min(quick_ns) if is_commit(each.statement) or quick > 1e9 * cpu_s else quick) - late_ns
        for each, quick in zip(timed, quick_ns, strict=True)
    ]
    counts = [each.service.count / done for each in timed]
    return _StatementTimes(
        count=sum(counts),
        mean_s=sum(n * each.service.mean for n, each in zip(counts, timed, strict=True)) / 1e9,
        quick_s=sum(n * ns for n, ns in zip(counts, least_ns, strict=True)) / 1e9,
    )
