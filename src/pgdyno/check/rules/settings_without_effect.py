"""Settings that contradict each other, so that one of them has no effect or a bad one.

Trigger, each certain from the settings themselves:

* commit_delay above 0 with commit_siblings = 0: each commit waits, also where nobody joins it;
* commit_delay above 0 with synchronous_commit or fsync off: no commit waits for a flush;
* publications, and wal_level is not logical: they publish nothing;
* max_parallel_workers or max_parallel_workers_per_gather above max_worker_processes: there are no
  more workers than that.

Threshold: none.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.numbers import counted

Contradiction = tuple[str, tuple[str, ...]]


def examine(sight: Sight) -> Fault | Fine:
    """Examine the settings two by two."""
    wrong = [*_of_commits(sight), *_of_publications(sight), *_of_workers(sight)]
    if not wrong:
        return Fine("no settings contradict each other")
    names = dict.fromkeys(name for _, involved in wrong for name in involved)
    return Fault(
        sentence="; ".join(sentence for sentence, _ in wrong),
        severity="minor",
        confidence=0.9,
        evidence=[
            measured(name, sight.setting(name).value, sight.setting(name).unit) for name in names
        ],
        advice="change or reset one of the two",
        commands=[
            f"ALTER SYSTEM RESET {name}" for name in names if not sight.setting(name).is_default
        ],
    )


def _of_commits(sight: Sight) -> Iterator[Contradiction]:
    delay = sight.setting("commit_delay")
    if delay.number <= 0:
        return
    if sight.setting("commit_siblings").number == 0:
        yield (
            "commit_delay makes each commit wait, since commit_siblings = 0",
            ("commit_delay", "commit_siblings"),
        )
    for name in ("synchronous_commit", "fsync"):
        if not sight.setting(name).is_on:
            yield f"commit_delay has no effect with {name} = off", ("commit_delay", name)


def _of_publications(sight: Sight) -> Iterator[Contradiction]:
    publications = sight.rows("publication")
    level = sight.setting("wal_level")
    if publications and level.value != "logical" and not sight.is_standby:
        number = counted(len(publications), "publication publishes", "publications publish")
        yield f"{number} nothing with wal_level = {level.value}", ("wal_level",)


def _of_workers(sight: Sight) -> Iterator[Contradiction]:
    most = sight.setting("max_worker_processes")
    for name in ("max_parallel_workers", "max_parallel_workers_per_gather"):
        setting = sight.setting(name)
        if setting.number > most.number and not (setting.is_default and most.is_default):
            yield (
                f"{name} = {setting.value} is more than max_worker_processes = {most.value}",
                (name, "max_worker_processes"),
            )


RULE = Rule(
    id="settings-without-effect",
    looks=("server", "setting", "publication"),
    false_positives="a setting that is prepared for another one that comes with the next restart",
    examine=examine,
)
