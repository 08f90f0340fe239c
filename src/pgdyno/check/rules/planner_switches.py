"""Kinds of plans turned off for the whole server.

Trigger: a setting enable_… that is on by default is off in the configuration. Threshold: none;
PostgreSQL's documentation ("Query Planning") calls them a temporary way to find out about a plan.
It is minor: it may be right for the statements that it was made for.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import listed

_FOR_ALL = ("configuration file", "command line", "environment variable", "global")


def examine(sight: Sight) -> Fault | Fine:
    """Examine the planner's switches."""
    off = [
        each
        for each in sight.settings
        if each.name.startswith("enable_") and each.boot == "on" and not each.is_on
        and each.source in _FOR_ALL
    ]  # fmt: skip
    if not off:
        return Fine("no kind of plan is turned off for the whole server")
    names = listed([each.name for each in off])
    is_off = "is off" if len(off) == 1 else "are off"
    return Fault(
        sentence=f"{names} {is_off} for all statements of the server",
        severity="minor",
        confidence=0.7,
        evidence=[measured(each.name, each.value, "", "off") for each in off],
        advice="turn it off for the statement or the role that needs it; see why its plan is wrong",
        commands=[f"ALTER SYSTEM RESET {each.name}" for each in off],
    )


RULE = Rule(
    id="planner-switches",
    looks=("setting",),
    false_positives="a server for one application, measured with and without it",
    examine=examine,
)
