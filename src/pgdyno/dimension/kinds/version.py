"""The version of PostgreSQL, or another build of it: a server that takes turns with the first one.

Both have the same address; only one of them runs at a time. Each has a data directory of its own,
which it has loaded itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgdyno.dimension._changing import spec_with
from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.errors import SetupError, UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change
from pgdyno.spec.keys import set_key

SETTINGS = "server.settings."
_NAMES = ("server.version", "server.bindir")


def names_server(key: str) -> bool:
    """True if a key says which server it is."""
    return key in _NAMES or (key.startswith(SETTINGS) and key != SETTINGS)


def own_server(change: Change) -> Mapping[str, str]:
    """Return the keys of a change that name its server; none: it is on the first one."""
    named = any(key in _NAMES for key in change.spec)
    keys = {key: value for key, value in change.spec.items() if names_server(key)}
    if named and "server.checksums" in change.spec:
        keys["server.checksums"] = change.spec["server.checksums"]
    return keys


_VERSION, _BINDIR = "server.version", "server.bindir"


class Version(KeyDimension):
    """The keys ``server.version``, ``server.bindir``, and with them ``server.settings.NAME``."""

    id = "version"
    order = 5
    two_sided = True
    keys = "server.version, server.bindir"

    def owns(self, key: str) -> bool:
        """True if it is one of its keys."""
        return names_server(key)

    def enter(self, fields: Fields, change: Change) -> None:
        """Set the keys; a version alone is not that of the directory named before."""
        mine = self.mine(change)
        if not mine:
            return
        server = fields["server"] = dict(fields.get("server") or {})
        if _VERSION in mine or _BINDIR in mine:
            server.pop("bindir", None)
            server.pop("version", None)
        server["settings"] = dict(server.get("settings") or {})
        for key, value in mine.items():
            if key.startswith(SETTINGS):
                server["settings"][key.removeprefix(SETTINGS)] = value
            elif key == _BINDIR:
                server["bindir"] = value
            else:
                set_key(fields, key, value)

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``PostgreSQL 18``."""
        mine = self.mine(change)
        if _VERSION in mine:
            yield f"PostgreSQL {mine[_VERSION]}"
        elif _BINDIR in mine:
            yield f"the server in {mine[_BINDIR]}"
        for key, value in mine.items():
            if key.startswith(SETTINGS):
                yield f"{key.removeprefix(SETTINGS)} = {value}"

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Make the other server with its tables."""
        keys = own_server(change)
        if not keys:
            return
        if Change(spec={**keys}) != change:
            raise UsageError(
                "a change to another version of PostgreSQL cannot change anything else",
                code="contradiction",
                hint="--base-set NAME=VALUE sets a setting of both sides",
            )
        if not any(key in keys for key in (_VERSION, _BINDIR)):
            raise UsageError(
                f"{next(iter(keys))}: is for a change of server.version",
                code="contradiction",
                hint="settings alone are changed without server.settings: --set NAME=VALUE",
            )
        others = context.server.others
        if others is None:
            raise SetupError(
                "two versions can be compared only on servers that pgdyno starts",
                code="version-of-yours",
                hint="leave the connection string out: pgdyno starts both, and loads the same data",
            )
        if not under_load:
            others.provide(keys, spec_with(context.base, change))

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return SERVER_RESTART if the server is another one."""
        same = own_server(transition.before) == own_server(transition.after)
        return Need.NOTHING if same else Need.SERVER_RESTART

    def while_down(self, transition: Transition, context: Context) -> None:
        """Let the other server take its turn."""
        assert context.server.others is not None
        context.server.others.enter(own_server(transition.after))

    def revert(self, change: Change, transition: Transition, context: Context) -> Change:
        """Let the server before take its turn again."""
        assert context.server.others is not None
        context.server.others.enter(own_server(transition.before))
        return transition.before


VERSION = Version()
