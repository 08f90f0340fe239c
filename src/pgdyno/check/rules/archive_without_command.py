"""WAL is kept for an archive, and nothing archives it.

Trigger: archive_mode is on, or always, on a server that archives, with neither archive_command nor
archive_library. Threshold: none; WAL is kept until a command is there (PostgreSQL's documentation,
"Write Ahead Log"), and the disk fills.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured


def examine(sight: Sight) -> Fault | Fine:
    """Examine the mode and what it would use."""
    mode = sight.setting("archive_mode").value
    archives = mode == "always" or (mode == "on" and not sight.is_standby)
    names = [name for name in ("archive_command", "archive_library") if sight.knows(name)]
    evidence = [measured("archive_mode", mode, "", "on")]
    evidence += [measured(name, sight.setting(name).value, "", "empty") for name in names]
    if not archives or any(sight.setting(name).value for name in names):
        return Fine("WAL is not kept for an archive without a command", evidence)
    return Fault(
        sentence=(
            f"archive_mode is {mode} and there is no archive_command: all WAL is kept until the"
            " disk"
            " is full"
        ),
        severity="will fail",
        confidence=0.95,
        evidence=evidence,
        advice=(
            "set archive_command, or archive_mode = off at the next restart; until then"
            " archive_command = '/bin/true' lets WAL go, which an archive then lacks"
        ),
    )


RULE = Rule(
    id="archive-without-command",
    looks=("server", "setting"),
    false_positives="an archive that is being repaired and will get the WAL that waits",
    examine=examine,
)
