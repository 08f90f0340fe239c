"""Settings of the server: by ALTER SYSTEM and a reload, by a restart where one is needed, or in the
load's own sessions where that is enough."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pgdyno.dimension._dimension import Dimension, Fields, Need, Place, Step
from pgdyno.spec import Change

# A number without a unit is told with it. Only of what the server takes no unit for; for all others
# the user's own spelling is the best.
_UNITS = {"commit_delay": "us"}
_NUMBER = re.compile(r"[0-9]+")


class Settings(Dimension):
    """``Change.settings``."""

    id = "settings"
    order = 10
    live = True

    def enter(self, fields: Fields, change: Change) -> None:
        """As what the server is started with."""
        if change.settings:
            server = fields.setdefault("server", {})
            server["settings"] = {**server.get("settings", {}), **change.settings}

    def titles(self, change: Change, before: Mapping[str, Any] | None) -> Iterable[str]:
        """``commit_delay = 100us``."""
        return [f"{name} = {_with_unit(name, value)}" for name, value in change.settings.items()]

    def provide(self, change: Change, place: Place, *, under_load: bool) -> None:
        """Check names and values, and say of a user's server whether it is changed; without a load
        put them in force and take them back, so that a role that may not is told so."""
        place.server.settings.check(dict(change.settings))
        if place.server.sessions is not None:
            place.server.sessions.check(change.settings)
        if (names := place.server.needs_apply(change.settings)) and not place.server.ours:
            place.note(f"set by ALTER SYSTEM, and put back: {', '.join(names)}")
        if mine := [name for name in change.settings if place.server.in_sessions(name)]:
            listed = ", ".join(mine)
            place.note(f"set in the load's own sessions, nothing changes on your server: {listed}")

        if not under_load:
            _prove(change.settings, place)

    def needs(self, step: Step, place: Place) -> Need:
        """A restart where a setting is read at the server's start only."""
        touched = self.names(step)
        if place.server.settings.needs_restart(touched):
            return Need.SERVER_RESTART
        return Need.RELOAD if touched else Need.NOTHING

    def names(self, step: Step) -> list[str]:
        """Those that differ."""
        return sorted({*_new(step), *_back(step)})

    def apply(self, step: Step, place: Place) -> None:
        """Put back what is no longer wanted, then set the rest."""
        server = place.server
        if back := [name for name in _back(step) if not server.in_sessions(name)]:
            server.settings.reset(back)
        if new := {n: value for n, value in _new(step).items() if not server.in_sessions(n)}:
            server.settings.apply(new)
        if server.receivers is not None and step.needs[self.id] is Need.SERVER_RESTART:
            server.receivers.require(new)

    def take_out(self, change: Change, step: Step, place: Place) -> Change:
        """Forget those that this step touched."""
        touched = self.names(step)
        assert place.server.cluster is not None
        place.server.cluster.forget_settings(touched)
        left = {n: value for n, value in step.start.settings.items() if n not in touched}
        return replace(change, settings=left)


DIMENSION = Settings()


def session_statement(change: Change, place: Place) -> str | None:
    """What the load's sessions execute to have their part of what is in force; ``None`` for
    nothing."""
    server = place.server
    if server.sessions is None:
        return None
    all_of_them = [*place.by_events.items(), *change.settings.items()]
    mine = {name.lower(): value for name, value in all_of_them if server.in_sessions(name)}
    return server.sessions.statement(mine)


def apply_event(settings: Mapping[str, str], place: Place) -> None:
    """Change settings in the middle of a run and say so in the run file."""
    server = place.server
    if server.sessions is not None:
        server.sessions.check(settings)
    server.settings.apply({n: v for n, v in settings.items() if not server.in_sessions(n)})
    place.by_events |= settings
    for name, value in settings.items():
        place.recorder.add_event("setting", f"{name} = {value}")


def _prove(settings: Mapping[str, str], place: Place) -> None:
    """Put settings in force and take them back at once: SetupError when the role may not, or when
    nobody can connect with them."""
    server = place.server
    shared = {name: value for name, value in settings.items() if not server.in_sessions(name)}
    if later := server.settings.needs_restart(shared):
        server.refuse_restart(later)
    at_once = {name: value for name, value in shared.items() if name.lower() not in later}
    server.settings.apply(at_once)
    server.settings.reset(at_once)


def _new(step: Step) -> dict[str, str]:
    now = step.start.settings
    return {name: value for name, value in step.to.settings.items() if now.get(name) != value}


def _back(step: Step) -> set[str]:
    return set(step.start.settings) - set(step.to.settings)


def _with_unit(name: str, value: str) -> str:
    return value + _UNITS.get(name, "") if _NUMBER.fullmatch(value) else value
