"""Settings that are not at their built-in value, and how each of them was judged: by a trial beside
the load, by a finding that proposes another value, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pgdyno.facts.plans import SAVED_MIN, TimedChange, saved_share, timed_settings, unusual_settings
from pgdyno.facts.situation import Situation
from pgdyno.record import UnusualSetting
from pgdyno.record.events import SESSION_SETTINGS, probe_events
from pgdyno.record.finding import Finding, Skip


class JudgedSetting(Struct, frozen=True):
    """A setting, and what is known of its cost."""

    setting: UnusualSetting
    saved_share: float | None = None
    """Share of the response time that goes with its built-in value, 0 to 1, where it was tried
    beside the load; None if it was not."""
    is_slower: bool = False
    """True if statements took longer with the built-in value."""
    tried_with: tuple[str, ...] = ()
    """Other settings that were reset in the same trial."""
    finding: str | None = None
    """ID of the finding that proposes another value; None without one."""


def untried_settings(s: Situation) -> list[UnusualSetting]:
    """Return the unusual settings whose built-in value was not tried beside the load. Raises Skip
    if it is not known which there are."""
    return [each for each in _known_settings(s) if not _resets(s, each)]


def judged_settings(s: Situation, findings: Sequence[Finding]) -> tuple[JudgedSetting, ...] | None:
    """Return the unusual settings as they were judged; None if it is not known which there are."""
    try:
        return tuple(_judged(s, each, findings) for each in _known_settings(s))
    except Skip:
        return None


def _known_settings(s: Situation) -> Sequence[UnusualSetting]:
    """Return the unusual settings. Raises Skip if it is not known which there are."""
    for event in probe_events(s.run, SESSION_SETTINGS):
        raise Skip(f"it is not known which settings differ: {event.detail.get('reason')}")
    return unusual_settings(s)


def _judged(s: Situation, setting: UnusualSetting, findings: Sequence[Finding]) -> JudgedSetting:
    name = setting.name
    by = next((each.id for each in findings if each.was_found and _changes(each, name)), None)
    resets = _resets(s, setting)
    if not resets:
        return JudgedSetting(setting, finding=by)
    # One that was tried in a group, and then alone, is judged by the latter.
    best = min(resets, key=lambda each: len(each.change.settings))
    return JudgedSetting(
        setting,
        saved_share=saved_share(s, best),
        is_slower=best.saved <= -SAVED_MIN and best.saved_max < 0.0,
        tried_with=tuple(other for other in best.change.settings if other != name),
        finding=by,
    )


def _resets(s: Situation, setting: UnusualSetting) -> list[TimedChange]:
    """Return the changes beside the load that give a setting its built-in value."""
    wanted = (setting.name, setting.reset)
    return [each for each in timed_settings(s) if wanted in each.change.settings.items()]


def _changes(finding: Finding, name: str) -> bool:
    return any(name in each.change.settings for each in finding.proposals)
