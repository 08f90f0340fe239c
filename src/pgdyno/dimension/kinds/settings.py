"""Settings of the server: by ALTER SYSTEM and a reload, by a restart where it is needed, or in the
load's sessions where that is enough."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from pgdyno.dimension._dimension import Context, Dimension, Need, Transition
from pgdyno.dimension.session_state import kept_by_sessions
from pgdyno.json_types import Fields
from pgdyno.spec import Change

# Settings for which the server accepts no unit: titles add it. For all others titles show the value
# as the user writes it.
_UNITS = {"commit_delay": "us"}
_NUMBER = r"[0-9]+"


class SettingsDimension(Dimension):
    """``Change.settings``."""

    id = "settings"
    order = 10
    live = True

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the settings with which the server is started."""
        if change.settings:
            server = fields.setdefault("server", {})
            server["settings"] = {**server.get("settings", {}), **change.settings}

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``commit_delay = 100us``."""
        return [f"{name} = {_with_unit(name, value)}" for name, value in change.settings.items()]

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Check names and values, and note whether an existing server is changed; without a load,
        apply and revert them, so that missing permissions are found."""
        context.server.settings.check(dict(change.settings))
        if context.server.sessions is not None:
            context.server.sessions.check(change.settings)
        if (names := context.server.needs_apply(change.settings)) and not context.server.ours:
            context.note(f"set by ALTER SYSTEM for the time of a slice: {', '.join(names)}")
        mine = [name for name in change.settings if context.server.in_sessions(name)]
        if mine and not context.server.ours:
            listed = ", ".join(mine)
            context.note(
                f"set in the load's sessions only, with no change of your server: {listed}"
            )

        if not under_load:
            _try_out(change.settings, context)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return SERVER_RESTART if a setting is only read at server start, LOAD_RESTART if sessions
        that are there may keep something of its value before."""
        touched = self.names(transition)
        if context.server.settings.needs_restart(touched):
            return Need.SERVER_RESTART
        if kept_by_sessions(touched):
            return Need.LOAD_RESTART
        return Need.RELOAD if touched else Need.NOTHING

    def names(self, transition: Transition) -> list[str]:
        """Return the settings that differ."""
        return sorted({*_new(transition), *_back(transition)})

    def apply(self, transition: Transition, context: Context) -> None:
        """Reset settings that are no longer changed, then set the others."""
        server = context.server
        if back := [name for name in _back(transition) if not server.in_sessions(name)]:
            server.settings.reset(back)
        if new := {n: value for n, value in _new(transition).items() if not server.in_sessions(n)}:
            server.settings.apply(new)
        if server.receivers is not None and transition.needs[self.id] is Need.SERVER_RESTART:
            server.receivers.raise_minimums(new)
        if transition.needs[self.id] is Need.LOAD_RESTART and transition.need < Need.SERVER_RESTART:
            _renew_sessions(self.names(transition), context)

    def revert(self, change: Change, transition: Transition, context: Context) -> Change:
        """Remove the settings that this transition changed."""
        touched = self.names(transition)
        assert context.server.cluster is not None
        context.server.cluster.forget_settings(touched)
        left = {n: value for n, value in transition.before.settings.items() if n not in touched}
        return replace(change, settings=left)


SETTINGS = SettingsDimension()


def session_statement(change: Change, context: Context) -> str | None:
    """Return the statement that applies the active settings to the load's sessions; ``None`` if
    there is none."""
    server = context.server
    if server.sessions is None:
        return None
    all_of_them = [*context.by_events.items(), *change.settings.items()]
    mine = {name.lower(): value for name, value in all_of_them if server.in_sessions(name)}
    return server.sessions.statement(mine)


def apply_event(settings: Mapping[str, str], context: Context) -> None:
    """Change settings in the middle of a run, and record it in the run file."""
    server = context.server
    if server.sessions is not None:
        server.sessions.check(settings)
    if names := kept_by_sessions(settings):
        context.note(
            f"{', '.join(names)} in the middle of a run: sessions may go on with what they have of"
            " the value before, such as plans of prepared statements and functions, as those of an"
            " application do"
        )
    server.settings.apply({n: v for n, v in settings.items() if not server.in_sessions(n)})
    context.by_events |= settings
    for name, value in settings.items():
        context.recorder.add_event("setting", f"{name} = {value}")


def _renew_sessions(names: Iterable[str], context: Context) -> None:
    """End the sessions of a pooler or a front end; say once if others keep them."""
    server = context.server
    if not server.renew_sessions():
        keeper = "your pooler"
    elif context.base.http is not None and server.application is None:
        keeper = "your web server"
    else:
        return
    kept = kept_by_sessions(names)
    said: list[str] = context.remembered.setdefault(SETTINGS.id, [])
    if new := [name for name in kept if name not in said]:
        said += new
        text = (
            f"{', '.join(new)}: the sessions that {keeper} keeps may go on with what they have of"
            " the value before, such as plans of prepared statements and functions; then the"
            " figures are without the effect of the change"
        )
        context.note(f"warning: {text}")
        context.recorder.add_event("warning", "sessions not made again", {"message": text})


def _try_out(settings: Mapping[str, str], context: Context) -> None:
    """Apply settings and revert them at once. Raises SetupError when the role may not, or when
    connecting fails with them."""
    server = context.server
    shared = {name: value for name, value in settings.items() if not server.in_sessions(name)}
    if later := server.settings.needs_restart(shared):
        server.refuse_restart(later)
    at_once = {name: value for name, value in shared.items() if name.lower() not in later}
    server.settings.apply(at_once)
    server.settings.reset(at_once)


def _new(transition: Transition) -> dict[str, str]:
    now = transition.before.settings
    return {
        name: value for name, value in transition.after.settings.items() if now.get(name) != value
    }


def _back(transition: Transition) -> set[str]:
    return set(transition.before.settings) - set(transition.after.settings)


def _with_unit(name: str, value: str) -> str:
    return value + _UNITS.get(name, "") if re.fullmatch(_NUMBER, value) else value
