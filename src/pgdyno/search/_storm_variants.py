"""Changes of a storm: fewer connections at a time, pauses after failures, limits of queues."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence

from pgdyno.results.storm import StormPoint, Variant
from pgdyno.search._storm_load import SHAPES
from pgdyno.spec import Change
from pgdyno.spec.pooler import PoolerSpec

ROUNDS = 3
AT_A_TIME = (10, 100)
POOL_SHARE = 20
"""The clients' own pool has this part of as many connections, in which their queue is limited."""
LISTEN_BACKLOG = 128
"""Default of PgBouncer's listen_backlog."""
BACKOFF = {"load.backoff_min": "50ms", "load.backoff_max": "2s"}

Make = Callable[[int, Change, str], StormPoint]


def variants_of(
    shape: str, group: str, clients: int, connecting_max: int, pooler: PoolerSpec | None = None
) -> dict[str, Change]:
    """Return the changes by title, the unchanged storm first; without another where nothing that
    clients or a pooler do would change the shape."""
    found = {"": Change()}
    if SHAPES[shape].idle:
        return found
    for most in AT_A_TIME:
        if most < min(clients, connecting_max):
            title = f"{most} at a time (--connecting-max {most})"
            found[title] = Change(spec={"load.connecting_max": str(most)})
    if SHAPES[shape].at_once_again:
        found["pauses after failures, 50 ms to 2 s (load.backoff_min)"] = Change(spec=BACKOFF)
    if pooler is not None:
        found |= _queues_of(pooler, clients)
    size = max(clients // POOL_SHARE, 2)
    if size < clients:
        found[f"a queue for {size} connections (--pool-max {size})"] = Change(
            pool_max={group: size}
        )
    return found


def _queues_of(pooler: PoolerSpec, clients: int) -> dict[str, Change]:
    """Return the changes of the pooler's own queues by title, unless their settings are given."""
    limits: dict[str, dict[str, tuple[str, str | None]]] = {
        "pgbouncer": {
            "query_wait_timeout": ("at most 2 s in PgBouncer's queue", "2"),
            "listen_backlog": (
                f"a listen queue for {clients:,} connections",
                str(clients) if clients > LISTEN_BACKLOG else None,
            ),
        },
        "pgpool": {
            "reserved_connections": ("refusal in place of pgpool-II's listen queue", "1"),
            "listen_backlog_multiplier": ("a listen queue five times as long", "10"),
        },
        "haproxy": {
            "timeout queue": ("at most 2 s in HAProxy's queue", "2s")
            if "default-server" in pooler.settings
            else ("", None),
        },
    }
    return {
        f"{title} (pooler.{name} = {value})": Change(spec={f"pooler.{name}": value})
        for name, (title, value) in limits.get(pooler.kind, {}).items()
        if value is not None and name not in pooler.settings
    }


def within_time(changes: dict[str, Change], storms: int) -> tuple[dict[str, Change], list[str]]:
    """Return the first changes, as many as a round has time for, and the titles of the others."""
    titles = list(changes)
    kept = titles[: max(storms, 2)]
    return {title: changes[title] for title in kept}, titles[len(kept) :]


def compared(
    changes: dict[str, Change],
    clients: int,
    make: Make,
    has_time: Callable[[], bool],
    rng: random.Random,
) -> list[Variant]:
    """Make storms under each change, in rounds of random order, as long as there is time for a
    whole round; return the outcome of each."""
    measured: dict[str, list[StormPoint]] = {title: [] for title in changes}
    for _ in range(ROUNDS):
        for title in rng.sample(list(changes), len(changes)):
            if not has_time():
                return _whole(measured, clients)
            words = f"; {title}" if title else ""
            measured[title].append(make(clients, changes[title], words))
    return _whole(measured, clients)


def _whole(measured: dict[str, list[StormPoint]], clients: int) -> list[Variant]:
    """Return the variants over the rounds that are whole."""
    rounds = min(map(len, measured.values()))
    if not rounds:
        return []
    plain = measured[""][:rounds]
    return [
        variant_of(title, clients, points[:rounds], plain) for title, points in measured.items()
    ]


def variant_of(
    title: str, clients: int, points: Sequence[StormPoint], plain: Sequence[StormPoint]
) -> Variant:
    """Return the outcome of the storms under one change, against those without it."""
    took = [each.steady_s for each in points if each.steady_s is not None]
    late = [each.connect_ms_p99 for each in points if each.connect_ms_p99 is not None]
    return Variant(
        title=title,
        clients=clients,
        storms=len(points),
        survived=sum(each.survived for each in points),
        steady_s=round(statistics.median(took), 2) if took else None,
        steady_s_min=min(took, default=None),
        steady_s_max=max(took, default=None),
        errors=errors_in(points),
        connect_ms_p99=round(statistics.median(late), 3) if late else None,
        sentence=_sentence(title, took, points, plain) if title else "",
    )


def errors_in(points: Sequence[StormPoint]) -> int:
    """Return the number of errors in all storms."""
    return sum(cause.count for each in points for cause in each.errors)


def _sentence(
    title: str, took: list[float], points: Sequence[StormPoint], plain: Sequence[StormPoint]
) -> str:
    """Return the comparison: a difference only where the storms do not overlap."""
    before = [each.steady_s for each in plain if each.steady_s is not None]
    if len(took) != len(before):
        return f"{title}: {len(took)} of {len(points)} storms survived instead of {len(before)}"
    errors = f"{errors_in(points):,} instead of {errors_in(plain):,} errors"
    if not errors_in(points) and not errors_in(plain):
        errors = "no errors"
    if not took:
        return f"{title}: no storm survived either, with {errors}"
    now_s, was_s = statistics.median(took), statistics.median(before)
    if len(took) < 2 or (max(took) >= min(before) and max(before) >= min(took)):
        return f"{title}: no difference of time that exceeds the spread, {errors}"
    word = "sooner" if now_s < was_s else "later"
    return f"{title}: steady {word}, after {now_s:.1f} instead of {was_s:.1f} s, {errors}"
