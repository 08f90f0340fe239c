"""All other keys of the load, its workload and its clients: a change restarts the load.

Properties of the whole run (its length, its tables) cannot differ between its slices.
"""

from __future__ import annotations

from pgdyno.dimension._dimension import KeyDimension

_TABLES = ("load", "workload", "clients")
_FIXED = {"load.ramp", "load.hold", "load.steps", "workload.scale"}
_FIXED_TABLES = {
    "workload.init",
    "workload.setup",
    "workload.setup_text",
    "workload.setup_sha256",
    "workload.vacuum",
    "workload.initialize",
    "workload.table_options",
    "workload.indexes",
}


class LoadKeys(KeyDimension):
    """The keys ``load.…``, ``workload.…`` and ``clients.GROUP.…`` of no other dimension."""

    id = "load"
    order = 200
    keys = "load.*, workload.*, clients.GROUP.*"

    def owns(self, key: str) -> bool:
        """True if it is a variable key of the load and of no other dimension."""
        from pgdyno.dimension._listing import dimensions

        parts = key.split(".")
        of_load = parts[0] in _TABLES and len(parts) > 1 and key not in _FIXED
        if not of_load or ".".join(parts[:2]) in _FIXED_TABLES:
            return False
        return not any(each.owns(key) for each in dimensions() if each is not self)


DIMENSION = LoadKeys()
