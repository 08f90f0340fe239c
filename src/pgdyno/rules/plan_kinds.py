"""Plans of prepared statements: for the values of each execution, or one for any values."""

from __future__ import annotations

from pgdyno.facts.plans import (
    PLAN_CACHE_MODE,
    is_of_kept_plan,
    planned_statements,
    timed_settings,
    unusual_settings,
)
from pgdyno.facts.situation import Situation
from pgdyno.numbers import figure
from pgdyno.record.finding import Skip
from pgdyno.rules._timed_changes import (
    COST_SHARE,
    is_costly,
    proposals_of,
    refuse_if_undecided,
    saved_evidence,
    settings_title,
    time_evidence,
    weight_of,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import has_variables, shortened


@rule(
    "kept-plan",
    false_positives="values that the load sends rarely, for which the other kind of plan is better",
)
def kept_plan(s: Situation) -> Found | Cleared:
    """Prepared statements with the dearer kind of plan.

    From its sixth execution on, a prepared statement with parameters may have one plan for any
    values, if its cost is not estimated to be much higher than that of plans for the values of each
    execution, planning included (choose_custom_plan in plancache.c). The estimate may be wrong
    either way: values that are much rarer or more frequent than the mean, or planning that costs
    more than is estimated.

    Trigger: the load's statements, executed beside it with plan_cache_mode = force_custom_plan
    where a plan is for any values, or with force_generic_plan where none is, take ``COST_SHARE`` of
    the response time less. Measured, on servers that pgdyno started.
    """
    if s.protocol != "prepared":
        return Cleared("statements are not prepared", [s.evidence("protocol", s.protocol, "")])
    statements = planned_statements(s)
    if any(each.name == PLAN_CACHE_MODE for each in unusual_settings(s)):
        raise Skip(f"{PLAN_CACHE_MODE} is set: see settings")
    if not any(has_variables(each.total.statement) for each in statements):
        none = s.evidence("statements with parameters", 0, "count")
        return Cleared("prepared statements have no parameters", [none])
    tried = [each for each in timed_settings(s) if is_of_kept_plan(s, each)]
    if not tried:
        raise Skip("the other kind of plan was not tried")
    other = tried[0]
    title = settings_title(other)
    evidence = [
        saved_evidence(s, other, title, COST_SHARE),
        *time_evidence(s, other.statements[:1], f"with {title}"),
    ]
    refuse_if_undecided(other, title)
    if not is_costly(s, other):
        return Cleared("the other kind of plan saves nothing", evidence)
    worst = other.statements[0]
    is_generic = other.change.settings[PLAN_CACHE_MODE] == "force_custom_plan"
    kind = "one plan for any values" if is_generic else "another plan for each execution"
    return Found(
        sentence=(
            f"a prepared statement has {kind}, and takes {figure(worst.ms)} ms where it would take"
            f" {figure(worst.changed_ms)} with the other kind:"
            f" {shortened(worst.total.statement)}"
        ),
        confidence=0.9,
        evidence=evidence,
        proposals=proposals_of(
            s, [other], "plan-cache-mode", "the statement would have the other kind of plan"
        ),
        **weight_of(s, other),
    )
