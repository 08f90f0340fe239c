"""Which changes have a server of their own, with binaries, data and settings beside the first."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.spec import Change

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
