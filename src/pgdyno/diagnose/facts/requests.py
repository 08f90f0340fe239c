"""Requests of the clients' scripts to a web server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno.diagnose.facts.slices import Facts


def requests_each(s: Facts) -> float:
    """Return the requests of a mean transaction of the clients' scripts."""
    done = sum(each.service.count for each in s.statements)
    return max(1.0, done / (s.throughput_tps * s.seconds))
