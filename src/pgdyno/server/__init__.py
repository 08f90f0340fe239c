"""PostgreSQL servers: finding their programs, starting and ending them, changing their settings.

Importing this package loads neither psycopg nor anything else that is slow; the functions that
talk to a server do when called.
"""

from pgdyno.server.connecting._facts import server_facts
from pgdyno.server.connecting._pooler import server_behind
from pgdyno.server.connecting.connect import connect, own_database, resolve_conninfo
from pgdyno.server.connecting.conninfo import OWN_NAME as OWN_DATABASE
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.turn import only_one
from pgdyno.server.local._installation import (
    Installation,
    discover_installations,
    find_installation,
)
from pgdyno.server.local.cluster import Cluster
from pgdyno.server.local.layout import Disks, OwnFolder, Places
from pgdyno.server.local.sweep import sweep
from pgdyno.server.settings._change import Settings
from pgdyno.server.settings._kept import steady
from pgdyno.server.settings._pending import Undone, settings_left, settle, undo_left
from pgdyno.server.settings._session_settings import SessionSettings, apply_missing
from pgdyno.server.settings._unloaded import require_loaded
from pgdyno.server.settings.setting_values import Setting

__all__ = [
    "OWN_DATABASE",
    "Cluster",
    "ConnInfo",
    "Disks",
    "Installation",
    "OwnFolder",
    "Places",
    "SessionSettings",
    "Setting",
    "Settings",
    "Undone",
    "apply_missing",
    "connect",
    "discover_installations",
    "find_installation",
    "only_one",
    "own_database",
    "require_loaded",
    "resolve_conninfo",
    "server_behind",
    "server_facts",
    "settings_left",
    "settle",
    "steady",
    "sweep",
    "undo_left",
]
