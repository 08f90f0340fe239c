"""PostgreSQL servers: finding binaries, starting and stopping servers, changing settings.

Importing this package does not load psycopg or other slow modules; the functions that connect to a
server load them when called.
"""

from pgdyno.server.connecting._pooler import keeps_prepared, server_behind
from pgdyno.server.connecting.connect import (
    catalog_first,
    connect,
    connect_plain,
    own_database,
    resolve_conninfo,
)
from pgdyno.server.connecting.conninfo import OWN_NAME as OWN_DATABASE
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.exclusive_use import exclusive_use
from pgdyno.server.connecting.facts import server_facts
from pgdyno.server.local._installation import (
    Installation,
    discover_installations,
    find_installation,
)
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.local.layout import DiskDirectories, Disks, OwnDirectory
from pgdyno.server.local.sweep import sweep
from pgdyno.server.settings._change import Settings
from pgdyno.server.settings._leftovers import (
    RecordOutcome,
    check_restored,
    leftover_settings,
    restore_all_leftovers,
    restore_leftovers,
)
from pgdyno.server.settings._persistent_session import without_time_limits
from pgdyno.server.settings._session_settings import SessionSettings, apply_missing
from pgdyno.server.settings.reloading import require_loaded
from pgdyno.server.settings.setting_values import Setting

__all__ = [
    "OWN_DATABASE",
    "Cluster",
    "ConnInfo",
    "DiskDirectories",
    "Disks",
    "Installation",
    "OwnDirectory",
    "RecordOutcome",
    "SessionSettings",
    "Setting",
    "Settings",
    "apply_missing",
    "catalog_first",
    "check_restored",
    "connect",
    "connect_plain",
    "discover_installations",
    "exclusive_use",
    "find_installation",
    "keeps_prepared",
    "leftover_settings",
    "own_database",
    "require_loaded",
    "resolve_conninfo",
    "restore_all_leftovers",
    "restore_leftovers",
    "server_behind",
    "server_facts",
    "sweep",
    "without_time_limits",
]
