"""Commits wait for a synchronous standby that is not there.

Trigger: synchronous_standby_names asks for more standbys than are connected with the state sync or
quorum, and synchronous_commit is neither off nor local. Threshold: none; each commit waits until
they are there (PostgreSQL's documentation, "Synchronous Replication").
"""

from __future__ import annotations

import re

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import figure

_NUMBER = re.compile(r"\s*(?:(?:any|first)\s+)?(\d+)\s*\(", re.IGNORECASE)
_WAITS_FOR = ("sync", "quorum")


def examine(sight: Sight) -> Fault | Fine:
    """Compare the standbys that commits wait for with those that are connected."""
    names = sight.setting("synchronous_standby_names").value
    commit = sight.setting("synchronous_commit").value
    if not names.strip() or sight.is_standby:
        return Fine(
            "commits wait for no standby", [measured("synchronous_standby_names", names, "")]
        )
    found = _NUMBER.match(names)
    wanted = int(found[1]) if found else 1
    there = [row for row in sight.rows("standby") if row["sync_state"] in _WAITS_FOR]
    evidence = [
        measured("synchronous_standby_names", names, ""),
        measured("synchronous_commit", commit, ""),
        measured("standbys that commits wait for", wanted, "count"),
        measured("synchronous standbys connected", len(there), "count", f"less than {wanted}"),
    ]
    if len(there) >= wanted or commit in ("off", "local"):
        return Fine("the synchronous standbys are connected", evidence)
    return Fault(
        sentence=(
            f"commits wait for {figure(wanted)} synchronous standby, and"
            f" {figure(len(there))} of those in synchronous_standby_names is connected: no commit"
            " returns"
        ),
        severity="will fail",
        confidence=0.9,
        evidence=evidence,
        advice=(
            "start the standby, or see its application_name; until it is back, commits return with"
            " the command, and a failover may lose them (class D1)"
        ),
        commands=["ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"],
    )


RULE = Rule(
    id="absent-sync-standby",
    looks=("server", "setting", "standby"),
    false_positives="a standby that restarts at this moment",
    examine=examine,
)
