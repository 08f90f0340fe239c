"""PostgreSQL servers: finding their programs, starting and ending them, changing their settings.

Importing this package loads neither psycopg nor anything else that is slow; the functions that
talk to a server do when called.
"""

from pgdyno.server.cluster import Cluster
from pgdyno.server.connecting import connect, own_database, resolve_conninfo
from pgdyno.server.conninfo import ConnInfo
from pgdyno.server.facts import server_facts
from pgdyno.server.installation import Installation, discover_installations, find_installation
from pgdyno.server.kept import steady
from pgdyno.server.layout import Disks, OwnFolder, Places
from pgdyno.server.pending import Undone, settings_left, settle, undo_left
from pgdyno.server.pooler import server_behind
from pgdyno.server.session_settings import SessionSettings, apply_missing
from pgdyno.server.setting_values import Setting
from pgdyno.server.settings import Settings
from pgdyno.server.sweep import sweep
from pgdyno.server.template import OWN_NAME as OWN_DATABASE
from pgdyno.server.turn import only_one
from pgdyno.server.unloaded import require_loaded

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
