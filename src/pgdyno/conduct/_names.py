"""The application_name of a client group's sessions, by which the server tells services apart."""

from __future__ import annotations

from pgdyno.spec import ClientGroup, Spec

LOAD = "pgdyno"
"""Name of the sessions of a load, and of each group the beginning."""
_BYTES_MAX = 63
"""The server cuts names to this length."""


def application_name(spec: Spec, group: ClientGroup) -> str:
    """Return ``pgdyno/GROUP``. A name that the server would change, because it is too long or not
    in ASCII, becomes ``pgdyno//NUMBER NAME``, so that two groups never have the same one."""
    name = f"{LOAD}/{group.name}"
    if len(name) <= _BYTES_MAX and _is_plain(group.name) and not group.name.startswith("/"):
        return name
    number = [each.name for each in spec.clients].index(group.name) + 1
    cleaned = "".join(each if _is_plain(each) else "?" for each in group.name)
    return f"{LOAD}//{number} {cleaned}"[:_BYTES_MAX]


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()
