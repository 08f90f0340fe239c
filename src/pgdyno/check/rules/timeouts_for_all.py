"""Time limits in the configuration file, which end dumps, vacuums and new indexes too.

Trigger: statement_timeout, lock_timeout or transaction_timeout is set for the whole server.
Threshold: none; PostgreSQL's documentation ("Client Connection Defaults") advises against each of
them in postgresql.conf, since it affects all sessions. It is minor.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import duration, listed

_NAMES = ("statement_timeout", "lock_timeout", "transaction_timeout")
_FOR_ALL = ("configuration file", "command line", "environment variable", "global")


def examine(sight: Sight) -> Fault | Fine:
    """Examine the limits that are set for the whole server."""
    known = [sight.setting(name) for name in _NAMES if sight.knows(name)]
    limits = [each for each in known if each.number > 0 and each.source in _FOR_ALL]
    if not limits:
        return Fine("no time limit is set for the whole server")
    is_set = "is set" if len(limits) == 1 else "are set"
    return Fault(
        sentence=(
            f"{listed([f'{each.name} of {duration(each.seconds)}' for each in limits])} {is_set}"
            " for the whole server, and so for dumps, manual vacuums and CREATE INDEX"
        ),
        severity="minor",
        confidence=0.7,
        evidence=[measured(each.name, each.seconds, "s", "more than 0") for each in limits],
        advice="set it for the roles of the application: ALTER ROLE … SET …",
        commands=[f"ALTER SYSTEM RESET {each.name}" for each in limits],
    )


RULE = Rule(
    id="timeouts-for-all",
    looks=("setting",),
    false_positives="roles for maintenance that have a setting of their own",
    examine=examine,
)
