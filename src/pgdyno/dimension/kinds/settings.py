"""Settings of the server: by ALTER SYSTEM and a reload, by a restart where it is needed, or in the
load's sessions where that is enough."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from pgdyno.dimension._dimension import Context, Dimension, Need, Transition
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec

# Settings for which the server accepts no unit: titles add it. For all others titles show the value
# as the user writes it.
_UNITS = {"commit_delay": "us"}
_NUMBER = r"[0-9]+"
_PLANNER = (
    r"(enable|cpu|jit|geqo|min_parallel|parallel)(_\w+)?"
    r"|(seq|random)_page_cost|effective_cache_size|(from|join)_collapse_limit|work_mem"
    r"|hash_mem_multiplier|max_parallel_workers_per_gather|constraint_exclusion"
    r"|cursor_tuple_fraction|recursive_worktable_factor"
)
"""Settings that are read while a statement is planned. A session that keeps a statement prepared
goes on with the generic plan that it has (plancache.c), whatever they become."""


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
        if words := _not_renewed(change.settings, context):
            context.note(words)
        if mine := [name for name in change.settings if context.server.in_sessions(name)]:
            listed = ", ".join(mine)
            context.note(
                f"set in the load's sessions only, with no change of your server: {listed}"
            )

        if not under_load:
            _try_out(change.settings, context)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return SERVER_RESTART if a setting is only read at server start, LOAD_RESTART if the
        load's sessions have plans that were made under another one."""
        touched = self.names(transition)
        if context.server.settings.needs_restart(touched):
            return Need.SERVER_RESTART
        if _kept_in_plans(touched, transition.spec_after):
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
            server.renew_sessions()

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
    if names := _kept_in_plans(settings, context.base):
        context.note(
            f"{', '.join(names)} in the middle of a run: sessions go on with the plans of the"
            " statements that they keep prepared, as those of an application do"
        )
    server.settings.apply({n: v for n, v in settings.items() if not server.in_sessions(n)})
    context.by_events |= settings
    for name, value in settings.items():
        context.recorder.add_event("setting", f"{name} = {value}")


def _kept_in_plans(names: Iterable[str], spec: Spec) -> list[str]:
    """Return those that are read while a statement is planned, if sessions keep statements
    prepared; a web server's driver does, by default."""
    if spec.load.protocol != "prepared" and spec.http is None:
        return []
    return [name for name in names if re.fullmatch(_PLANNER, name.lower())]


def _not_renewed(settings: Iterable[str], context: Context) -> str | None:
    """Return a note about settings of the planner, if others keep the sessions."""
    names, server = _kept_in_plans(settings, context.base), context.server
    if not names:
        return None
    if server.users_pooler is not None:
        keeper = "your pooler"
    elif context.base.http is not None and server.application is None:
        keeper = "your web server"
    else:
        return None
    return (
        f"{', '.join(names)}: sessions that {keeper} keeps may go on with the plans of their"
        " prepared statements, and then the change has no effect on them"
    )


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
