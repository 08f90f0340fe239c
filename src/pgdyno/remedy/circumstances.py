"""What is in force beside a change and decides what it means: settings, standbys, disks, tables.

Turning synchronous_commit to local loses nothing on a server without standbys, and may lose
commits at a failover on one whose commits wait for a standby. :class:`Circumstances` is all that a
remedy is told of a server; it is made from a spec, and from the server's own settings where they
are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pgdyno.spec import Change, DiskSpec, Spec, spec_from_fields
from pgdyno.spec.active_settings import ActiveSettings, choice_of
from pgdyno.spec.keys import set_key
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec

Copy = Literal["none", "written", "flushed"]

_KEYS = ("disk.", "standby.", "workload.unlogged", "server.checksums")
_WAITED_FOR = re.compile(r"\s*(?:any\s+|first\s+)?([0-9]+)\s*\(", re.IGNORECASE)


@dataclass(frozen=True)
class Circumstances:
    """A server as far as it decides what a change may lose."""

    settings: ActiveSettings = field(default_factory=lambda: ActiveSettings({}))
    """A setting that is not here has PostgreSQL's default."""
    standby: StandbySpec = field(default_factory=StandbySpec)
    disk: DiskSpec = field(default_factory=DiskSpec)
    unlogged: bool = False
    """Whether the load's tables have no WAL."""
    checksums: bool | None = None
    """Whether pages have checksums; ``None``: not known."""
    scripts_choose: bool = False
    """Whether the load's scripts set synchronous_commit themselves."""

    def text(self, name: str, default: str) -> str:
        """A setting's value, or the default that PostgreSQL's documentation gives."""
        value = self.settings.text(name)
        return default if value is None else value

    def is_on(self, name: str, *, default: bool) -> bool:
        """Whether a setting is on."""
        known = self.settings.is_on(name)
        return default if known is None else known

    @property
    def commit_level(self) -> str:
        """synchronous_commit: off, local, remote_write, on or remote_apply."""
        return choice_of(self.text("synchronous_commit", "on"))

    @property
    def synchronous_standbys(self) -> int:
        """How many standbys synchronous_standby_names makes a commit wait for; 0: it is empty."""
        names = self.text("synchronous_standby_names", "").strip().strip("'\"").strip()
        counted = _WAITED_FOR.match(names)
        return (int(counted[1]) if counted else 1) if names else 0

    @property
    def copy(self) -> Copy:
        """What a synchronous standby has of each acknowledged commit."""
        if not self.synchronous_standbys or self.commit_level in ("off", "local"):
            return "none"
        return "written" if self.commit_level == "remote_write" else "flushed"

    @property
    def has_standby(self) -> bool:
        """Whether there is a standby to fail over to, as far as known."""
        return self.standby.receivers > 0 or self.synchronous_standbys > 0

    @property
    def wal_in_memory(self) -> bool:
        """Whether the WAL lies on a disk that a power cut empties."""
        return (self.disk.wal_plan or self.disk.data_plan).kind == "tmpfs"

    def under(self, change: Change) -> Circumstances:
        """These with ``change`` in force. Raises UsageError for a value that a key cannot have."""
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

    def _fields(self) -> dict[str, Any]:
        """As a spec has them."""
        server = {} if self.checksums is None else {"checksums": self.checksums}
        return {
            "server": server,
            "standby": self.standby.model_dump(mode="json", by_alias=True),
            "disk": self.disk.model_dump(mode="json", by_alias=True),
            "workload": {"unlogged": self.unlogged},
        }


def circumstances(spec: Spec, in_force: Mapping[str, str] | None = None) -> Circumstances:
    """Those of a server as ``spec`` asks for it.

    ``in_force`` are its settings as SHOW gives them, where it runs already; otherwise they are the
    spec's, and PostgreSQL's defaults.
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


def circumstances_recorded(
    fields: Mapping[str, Any], in_force: Mapping[str, str] | None
) -> Circumstances:
    """As :func:`circumstances`, of a spec as a run file has it."""
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
