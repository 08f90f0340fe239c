"""Many more sessions than cores.

Trigger: at least ``SESSIONS_MIN`` client sessions are open, and at least ``SESSIONS_PER_CORE`` for
each core that the server may use. Threshold: pg_gather compares max_connections with ten times the
cores; what is open is judged here, since a limit costs nothing. It is minor: idle sessions take
memory, and a storm of them can be at work at once.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import figure

SESSIONS_MIN = 200
SESSIONS_PER_CORE = 10


def examine(sight: Sight) -> Fault | Fine:
    """Compare the sessions with the cores."""
    cores = float(sight.host["cores"])
    states = {row["state"]: row["sessions"] for row in sight.rows("connection_state")}
    sessions = sum(states.values())
    least = max(SESSIONS_MIN, SESSIONS_PER_CORE * cores)
    evidence = [
        measured("cores", cores, "cores"),
        measured("client sessions", sessions, "count", f"at least {figure(least)}"),
        *(measured(f"sessions {state or 'hidden'}", n, "count") for state, n in states.items()),
    ]
    if sessions < least:
        return Fine(f"{figure(sessions)} sessions on {figure(cores)} cores", evidence)
    return Fault(
        sentence=(
            f"{figure(sessions)} sessions are open on {figure(cores)} cores,"
            f" {figure(states.get('active', 0))} of them at work"
        ),
        severity="minor",
        confidence=0.6,
        evidence=evidence,
        advice="a pooler in transaction mode keeps as many sessions as can be at work",
    )


RULE = Rule(
    id="sessions-per-core",
    looks=("connection_state",),
    false_positives="sessions that mostly wait for something outside, such as a foreign server",
    examine=examine,
    covered_by=("connections", "connection-slots"),
)
