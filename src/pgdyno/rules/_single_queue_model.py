"""Throughput with fewer sessions where most of the sessions wait in one queue.

Where sessions queue for one thing, its turns and not their number decide the throughput: those
that leave would have waited. Of N sessions of which W wait on average, N - W suffice if turns come
evenly, and a few more if they come at random. In a closed loop this is the queue M/M/1//N: a
transaction spends the time U / X in its turns and (N - W - U) / X elsewhere, X being the
throughput. U, the utilisation, is what makes mean value analysis (M. Reiser and S. Lavenberg, JACM
27, 1980) give X with N sessions; with it, the same gives the throughput of fewer.

It explains a load whose 768, 384 and 192 sessions did the same work within 5 %, while waits for
LWLock:BufferMapping went from most of the time to hardly any. Waits that only shrink in proportion
to the sessions (see ``facts.model``) would have cost a large part of the throughput.
"""

from __future__ import annotations

import math

_ROUNDS = 30


def ratio_of_fewer(sessions: float, waiting: float, fewer: float) -> float:
    """Return the throughput of ``fewer`` sessions relative to that of ``sessions``, of which
    ``waiting`` wait in a queue on average; at most 1."""
    whole = max(2, round(sessions))
    without_queue = max(1.0, whole * (1.0 - waiting / sessions))
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if _throughput(whole, middle, without_queue - middle) > 1.0:
            low = middle
        else:
            high = middle
    wanted = max(1.0, fewer * whole / sessions)
    below = math.floor(wanted)
    of_below, of_above = (
        _throughput(count, high, without_queue - high) for count in (below, below + 1)
    )
    return min(1.0, of_below + (wanted - below) * (of_above - of_below))


def _throughput(sessions: int, turn: float, elsewhere: float) -> float:
    """Return transactions per unit of time, of which each has one turn."""
    queue = throughput = 0.0
    for count in range(1, sessions + 1):
        at_queue = turn * (1.0 + queue)
        throughput = count / (elsewhere + at_queue)
        queue = throughput * at_queue
    return throughput
