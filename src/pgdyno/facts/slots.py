"""Client sessions against the connections that the server has for them."""

from __future__ import annotations

from pgdyno.facts.client_sessions import SessionMoments, SessionOrigin, moments, origins
from pgdyno.facts.holders import sees_all_sessions
from pgdyno.facts.slices import Facts
from pgdyno.record.finding import Lack, Skip

SAMPLINGS_MIN = 2


def seen_sessions(s: Facts, bound_s: int) -> SessionMoments:
    """Return the client sessions over time. Raises Skip if they were not recorded, or are hidden
    from the role."""
    seen = moments(s.run, s.slice_ids, bound_s)
    if len(seen.at_ms) < SAMPLINGS_MIN:
        raise Skip("client sessions were not recorded")
    if seen.hidden.any() or not sees_all_sessions(s):
        raise Skip(
            "this role may not see the sessions of other roles (pg_monitor may)", Lack.RIGHTS
        )
    return seen


def usable(s: Facts) -> float:
    """Return the connections that roles without reserved ones may use."""
    rows = s.run.series("metric_connection", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("the connections in use were not recorded")
    return max(1.0, float(rows["usable"][-1]))


def most_of(s: Facts, column: str) -> SessionOrigin | None:
    """Return the origin with most sessions on average in one of the states."""
    found = [each for each in origins(s.run, s.slice_ids) if each.means[column] > 0]
    most = max(found, key=lambda origin: origin.means[column], default=None)
    every = sum(origin.means[column] for origin in found)
    return most if most is not None and most.means[column] > every / 2 else None
