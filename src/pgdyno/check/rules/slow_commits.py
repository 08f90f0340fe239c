"""Commits that take long for one client: what a program pays that commits each statement.

Trigger: an insert with its commit takes more than ``COMMIT_MS_MAX`` on average, by the write probe
(``--write-probe``). Threshold: Senzing's notes on PostgreSQL ask for less than 0.5 ms, 6,000
inserts in 3 s, for software that commits each statement; "many systems, even cloud systems" take
0.1 to 0.3 ms.
"""

from __future__ import annotations

from pgdyno.check._commits import CommitPartName, Commits, commits_of
from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import figure
from pgdyno.record.finding import Evidence

COMMIT_MS_MAX = 0.5
_ADVICE: dict[CommitPartName, str] = {
    "network": "bring the program nearer to the server, or send several statements at once: each"
    " waits for a round trip",
    "server": "see what the server's processes wait for while it runs, such as a core; triggers and"
    " indexes of your own tables come in addition",
    "flush": "a faster device for the WAL, one with a write cache that survives a power cut; or"
    " several statements in a transaction; or synchronous_commit = off, where the last commits may"
    " be lost in a crash",
    "standby": "a standby nearer to the server; or synchronous_commit = local, where a failover may"
    " lose the last commits",
}


def examine(sight: Sight) -> Fault | Fine:
    """Compare the mean time of a commit with the threshold."""
    commits = commits_of(sight.rows("write_probe"))
    if commits.mean_ms <= COMMIT_MS_MAX:
        return Fine(f"a commit takes {figure(commits.mean_ms)} ms on average", _evidence(commits))
    part, part_ms = max(commits.parts_ms.items(), key=lambda item: item[1])
    return Fault(
        sentence=(
            f"a commit of one row takes {figure(commits.mean_ms)} ms on average, of which"
            f" {figure(part_ms)} ms for the {part}"
        ),
        severity="costs",
        confidence=0.9,
        evidence=_evidence(commits),
        advice=_ADVICE[part],
    )


def _evidence(commits: Commits) -> list[Evidence]:
    return [
        measured("mean time of a commit", commits.mean_ms, "ms", f"more than {COMMIT_MS_MAX} ms"),
        *(measured(f"of it {part}", ms, "ms") for part, ms in commits.parts_ms.items()),
        measured("99th percentile of a commit", commits.p99_ms, "ms"),
        measured("commits", commits.count, "count"),
    ]


RULE = Rule(
    id="slow-commits",
    looks=("write_probe",),
    false_positives=(
        "a load of others that fills the device or the cores meanwhile; a pgdyno that runs farther"
        " from the server than the program does"
    ),
    examine=examine,
)
