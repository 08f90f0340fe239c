"""The state of a server that decides what a change may lose: settings, standbys, disks, tables.

synchronous_commit = local loses nothing on a server without standbys, but may lose commits at a
failover if commits waited for a standby before. :class:`Circumstances` is the only information that
a remedy has about a server; it is built from a spec and from the server's settings if known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from pgdyno.json_types import Fields
from pgdyno.spec import Change, DiskSpec, Spec, spec_from_fields
from pgdyno.spec.keys import set_key
from pgdyno.spec.server_settings import ActiveSettings, choice_of
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec

Copy = Literal["none", "written", "flushed"]

_KEYS = ("disk.", "standby.", "workload.unlogged", "server.checksums")
_WAITED_FOR = r"(?i)\s*(?:any\s+|first\s+)?([0-9]+)\s*\("


class Circumstances(Struct, frozen=True):
    """The properties of a server that decide what a change may lose."""

    settings: ActiveSettings = field(default_factory=lambda: ActiveSettings({}))
    """Settings that are not listed have PostgreSQL's default."""
    standby: StandbySpec = field(default_factory=StandbySpec)
    disk: DiskSpec = field(default_factory=DiskSpec)
    unlogged: bool = False
    """True if the load's tables are unlogged."""
    checksums: bool | None = None
    """True if pages have checksums; ``None`` if not known."""
    scripts_choose: bool = False
    """True if the load's scripts set synchronous_commit themselves."""

    def text(self, name: str, default: str) -> str:
        """Return a setting's value, or the default given by the caller."""
        value = self.settings.text(name)
        return default if value is None else value

    def is_on(self, name: str, *, default: bool) -> bool:
        """Return whether a setting is on."""
        known = self.settings.is_on(name)
        return default if known is None else known

    @property
    def commit_level(self) -> str:
        """synchronous_commit: off, local, remote_write, on or remote_apply."""
        return choice_of(self.text("synchronous_commit", "on"))

    @property
    def synchronous_standbys(self) -> int:
        """Number of standbys that commits wait for (synchronous_standby_names); 0 if none."""
        names = self.text("synchronous_standby_names", "").strip().strip("'\"").strip()
        counted = re.match(_WAITED_FOR, names)
        return (int(counted[1]) if counted else 1) if names else 0

    @property
    def copy(self) -> Copy:
        """State of acknowledged commits on a synchronous standby: none, written or flushed."""
        if not self.synchronous_standbys or self.commit_level in ("off", "local"):
            return "none"
        return "written" if self.commit_level == "remote_write" else "flushed"

    @property
    def has_standby(self) -> bool:
        """True if a standby to fail over to is known."""
        return self.standby.receivers > 0 or self.synchronous_standbys > 0

    @property
    def wal_in_memory(self) -> bool:
        """True if the WAL is on a tmpfs, which a power cut empties."""
        return (self.disk.wal_plan or self.disk.data_plan).kind == "tmpfs"

    def under(self, change: Change) -> Circumstances:
        """Return these after ``change``. Raises UsageError for an invalid value of a key."""
        keys = {key: value for key, value in change.spec.items() if key.startswith(_KEYS)}
        after = self
        if keys:
            fields = self._fields()
            for key, value in keys.items():
                set_key(fields, key, value)
            spec = spec_from_fields(fields)
            settings = self.settings
            if spec.standby != self.standby:
                settings = settings.under(spec.standby.settings(), without=MODE_SETTINGS)
            after = replace(
                self,
                settings=settings,
                standby=spec.standby,
                disk=spec.disk,
                unlogged=spec.workload.unlogged,
                checksums=spec.server.checksums,
            )
        return replace(after, settings=after.settings.under(change.settings))

    def _fields(self) -> dict[str, object]:
        """Return the fields of a spec."""
        server = {} if self.checksums is None else {"checksums": self.checksums}
        return {
            "server": server,
            "standby": self.standby.model_dump(mode="json", by_alias=True),
            "disk": self.disk.model_dump(mode="json", by_alias=True),
            "workload": {"unlogged": self.unlogged},
        }


def circumstances(spec: Spec, in_force: Mapping[str, str] | None = None) -> Circumstances:
    """Return the circumstances of a server as ``spec`` defines it.

    ``in_force`` has the settings of a running server as SHOW reports them; without it, those of the
    spec and PostgreSQL's defaults apply.
    """
    settings = ActiveSettings(in_force or {**spec.server.settings, **spec.standby.settings()})
    checksums = settings.is_on("data_checksums")
    return Circumstances(
        settings=settings,
        standby=spec.standby,
        disk=spec.disk,
        unlogged=spec.workload.unlogged,
        checksums=spec.server.checksums if checksums is None else checksums,
    )


def circumstances_recorded(fields: Fields, in_force: Mapping[str, str] | None) -> Circumstances:
    """Return the :func:`circumstances` of a spec recorded in a run file."""
    server = {
        key: value
        for key, value in (fields.get("server") or {}).items()
        if key in ("settings", "checksums") and value is not None
    }
    parts = {
        "server": server,
        "standby": fields.get("standby") or {},
        "disk": fields.get("disk") or {},
        "workload": {"unlogged": bool((fields.get("workload") or {}).get("unlogged"))},
    }
    return circumstances(spec_from_fields(parts), in_force)
