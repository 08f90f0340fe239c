"""Unusual settings as suspects: those that a trial of all at their built-in values resets, and for
each of the others the reason why it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.dimension import fields_with, title_of
from pgdyno.facts.unusual import JudgedSetting
from pgdyno.investigate._proposals import AssessedProposal, ProposalLimits, prevented
from pgdyno.record import UnusualSetting
from pgdyno.remedy import Circumstances, assess, catalogue
from pgdyno.spec import Change, Spec
from pgdyno.spec.durability import within
from pgdyno.spec.units import parse_size_bytes
from pgdyno.stats.prediction import Prediction

FINDING = "costly-settings"
_REMEDY = "reset-setting"
_TITLED_MAX = 2
_LIBRARIES = "preload_libraries"


class Suspects(Struct, frozen=True):
    """The unusual settings of a state."""

    tried: Sequence[UnusualSetting]
    """Those that a trial may reset."""
    left_out: Mapping[str, str]
    """The others by name, with the reason."""


def suspects_of(
    judged: Iterable[JudgedSetting],
    session: Session,
    limits: ProposalLimits,
    *,
    state: Change,
    server: Circumstances,
    guarded: Mapping[str, str],
) -> Suspects:
    """Return which settings a trial on top of ``state`` resets, on a ``server`` as it is without
    it; ``guarded`` are settings that no trial changes, with the reason."""
    tried: list[UnusualSetting] = []
    left_out: dict[str, str] = {}
    for each in judged:
        if each.setting.name in state.settings:
            continue
        why = guarded.get(each.setting.name) or _kept_apart(each)
        why = why or _not_permitted(each.setting, session, limits, state, server)
        if why is None:
            tried.append(each.setting)
        else:
            left_out[each.setting.name] = why
    return Suspects(tried, left_out)


def reset_of(
    settings: Sequence[UnusualSetting], spec: Spec, state: Change, server: Circumstances
) -> AssessedProposal:
    """Return the change of these settings to their built-in values, as a remedy to try."""
    change = Change(settings={each.name: each.reset for each in settings})
    several = len(settings) > _TITLED_MAX
    title = f"{len(settings)} settings at their built-in values" if several else ""
    return AssessedProposal(
        finding=FINDING,
        remedy=catalogue()[_REMEDY],
        assessment=assess(change, server.under(state)),
        title=title or title_of(change, fields_with(spec, state)),
        predicted_ratio=Prediction(1.0),
        cycle_s=None,
        is_predicted=False,
    )


def _kept_apart(judged: JudgedSetting) -> str | None:
    """Return why a setting is no suspect, by itself; None if it is one."""
    setting = judged.setting
    if setting.relied_on:
        return "replication, archiving or the results of statements depend on it"
    if setting.name.endswith(_LIBRARIES) and not setting.reset:
        return "ALTER SYSTEM cannot set an empty list of libraries"
    if judged.is_slower:
        return "statements take longer with its built-in value"
    if _is_larger(setting.value, setting.reset):
        return "it gives more room than its built-in value"
    return None


def _is_larger(value: str, reset: str) -> bool:
    """Return whether a size with a unit is larger than another."""
    try:
        return value.endswith("B") and parse_size_bytes(value) > parse_size_bytes(reset)
    except ValueError:
        return False


def _not_permitted(
    setting: UnusualSetting,
    session: Session,
    limits: ProposalLimits,
    state: Change,
    server: Circumstances,
) -> str | None:
    """Return why a setting cannot be reset in a trial here; None if it can."""
    proposal = reset_of([setting], session.spec, state, server)
    as_it_is = Change(settings={setting.name: setting.value})
    back = assess(as_it_is, server.under(state).under(proposal.change))
    target = session.target
    if back.durability_class in ("D1", "D2", "D3"):
        return "it saves time at the price of durability"
    if proposal.durability_class == "unknown" and limits.allow != "D3":
        return "it is not known what is lost with its built-in value"
    if not within(proposal.durability_class, limits.allow):
        return f"{proposal.durability_class} needs --allow {proposal.durability_class}"
    if proposal.assessment.cycles:
        return "its effect comes with whole checkpoint cycles"
    if not target.in_sessions(setting.name):
        overriding = target.settings.outweighed([setting.name])
        if by := overriding.get(setting.name):
            return f"{by} sets it, which overrides ALTER SYSTEM"
    if setting.needs_restart and not target.ours:
        return "it needs a restart of your server"
    return prevented(proposal, session, limits)
