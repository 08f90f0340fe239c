"""Extensions that take time of every statement, as they are set.

Trigger, any of:

* auto_explain.log_analyze with log_timing, for all statements: the clock is read for each node of
  each plan, also of statements that are not logged. PostgreSQL's documentation of auto_explain says
  that this can be extremely slow;
* auto_explain.log_min_duration = 0: the plan of every statement is logged;
* pg_stat_kcache is loaded: its author measured 285,000 instead of 696,000 transactions per second
  with many short statements (its issue 41);
* pg_wait_sampling.profile_period below ``PERIOD_MS_MIN``: it reads the state of every session a
  hundred times as often as a sampler needs;
* pg_stat_statements.max above ``STATEMENTS_MAX``: each read of the view, and each clean-up, goes
  through a file of all texts; its default is 5000, and ten times that is ours;
* track_functions = all: each call of a function reads the clock.

It costs something for the first three; the others are minor.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, measured
from pgdyno.record.finding import Evidence

PERIOD_MS_MIN = 5
STATEMENTS_MAX = 50_000
_EXPLAIN = "auto_explain"


def examine(sight: Sight) -> Fault | Fine:
    """Examine the settings of the extensions that are loaded."""
    costly = [*_explain(sight), *_kcache(sight)]
    minor = [*_sampling(sight), *_statements(sight), *_functions(sight)]
    evidence = [measured_by for _, found in (*costly, *minor) for measured_by in found]
    if not evidence:
        return Fine("no extension is set to take much time of every statement")
    return Fault(
        sentence="; ".join(sentence for sentence, _ in (*costly, *minor)),
        severity="costs" if costly else "minor",
        confidence=0.7,
        evidence=evidence,
        advice="reset the setting, or unload the extension where its figures are not needed",
        commands=[f"ALTER SYSTEM RESET {each.name}" for each in evidence if sight.knows(each.name)],
    )


def _explain(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    if not sight.knows(f"{_EXPLAIN}.log_min_duration"):
        return
    least = sight.setting(f"{_EXPLAIN}.log_min_duration")
    rate = sight.setting(f"{_EXPLAIN}.sample_rate")
    if least.number < 0 or rate.number < 1:
        return
    analyze, timing = (sight.setting(f"{_EXPLAIN}.log_{n}") for n in ("analyze", "timing"))
    if analyze.is_on and timing.is_on:
        yield (
            "auto_explain reads the clock for each node of each plan",
            [measured(analyze.name, "on", "", "on"), measured(timing.name, "on", "", "on")],
        )
    if least.number == 0:
        yield (
            "auto_explain logs the plan of every statement",
            [measured(least.name, 0, "ms", "0")],
        )


def _kcache(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "pg_stat_kcache.track"
    if sight.knows(name) and sight.setting(name).value != "none":
        yield (
            "pg_stat_kcache asks the kernel at the start and the end of every statement",
            [measured(name, sight.setting(name).value, "", "not none")],
        )


def _sampling(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "pg_wait_sampling.profile_period"
    if sight.knows(name) and sight.setting(name).number < PERIOD_MS_MIN:
        period = sight.setting(name).number
        yield (
            f"pg_wait_sampling reads the state of every session every {period:g} ms",
            [measured(name, period, "ms", f"less than {PERIOD_MS_MIN}")],
        )


def _statements(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "pg_stat_statements.max"
    if sight.knows(name) and sight.setting(name).number > STATEMENTS_MAX:
        most = sight.setting(name).number
        yield (
            f"pg_stat_statements keeps up to {most:,.0f} statements",
            [measured(name, most, "count", f"more than {STATEMENTS_MAX:,}")],
        )


def _functions(sight: Sight) -> Iterator[tuple[str, list[Evidence]]]:
    name = "track_functions"
    if sight.setting(name).value == "all":
        yield "track_functions times each call of a function", [measured(name, "all", "", "all")]


RULE = Rule(
    id="costly-extensions",
    looks=("setting",),
    false_positives="long statements only, beside which the time is nothing",
    examine=examine,
)
