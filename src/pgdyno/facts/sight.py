"""Everything that rules look at: the rows of a check's looks, its settings, facts of its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from pgdyno.json_types import Row
from pgdyno.looks.look import looks
from pgdyno.record import LookRow, RunFile
from pgdyno.record.facts import HostFacts
from pgdyno.record.finding import Evidence, Proposal, Skip
from pgdyno.spec.change import Change
from pgdyno.spec.server_settings import switch_of

_UNIT_BYTES = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "16kB": 16 << 10, "32kB": 32 << 10,
               "MB": 1 << 20, "16MB": 16 << 20, "GB": 1 << 30}  # fmt: skip
NOT_PREDICTED = 1.0
"""The ratio of a rule's proposal, as no model says what it gains."""
_UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Unseen(Skip):
    """Something could not be looked at."""

    def __init__(self, subject: str, why: str, allow: str = "") -> None:
        super().__init__(f"{subject}: {why}")
        self.subject = subject
        self.why = why
        self.allow = allow


class SettingRow(Struct, frozen=True):
    """A row of pg_settings."""

    name: str
    value: str
    """In units of ``unit``."""
    unit: str
    boot: str | None
    source: str
    context: str
    pending: bool
    """True if a new value in the configuration file waits for a restart."""

    @property
    def is_on(self) -> bool:
        """True if a Boolean is on; values of an enum other than off count as on."""
        return switch_of(self.value) is not False

    @property
    def is_default(self) -> bool:
        """True if nobody has set it, or to what is built in."""
        return self.source in ("default", "override") or self.value == self.boot

    @property
    def number(self) -> float:
        """The value without a unit."""
        return float(self.value)

    @property
    def bytes(self) -> float:
        """The value in bytes; negative values of special meaning are as they are."""
        return self.number * (_UNIT_BYTES[self.unit] if self.number > 0 else 1)

    @property
    def seconds(self) -> float:
        """The value in seconds; negative values of special meaning are as they are."""
        return self.number * (_UNIT_S[self.unit] if self.number > 0 else 1.0)


class Sight:
    """The sum of all that a check saw."""

    def __init__(self, run: RunFile) -> None:
        self.run = run
        self._looks = {row.look: row for row in run.looks()}  # the last of each name
        self._known = {look.name: look for look in looks()}

    def look(self, name: str) -> LookRow:
        """Return a look as recorded. Unseen if it was not taken."""
        found = self._looks.get(name)
        if found is None:
            option = self._known[name].option
            why = "it was not asked for" if option else "it was not looked at"
            raise Unseen(self._known[name].subject, why, f"pgdyno check {option}" if option else "")
        return found

    def rows(self, name: str) -> Sequence[Row]:
        """Return the rows of a look. Unseen if it could not be taken."""
        found = self.look(name)
        if found.rows is None:
            raise Unseen(self._known[name].subject, found.why, found.allow)
        return found.rows

    def row(self, name: str) -> Row:
        """Return the only row of a look. Unseen if it could not be taken."""
        rows = self.rows(name)
        if not rows:
            raise Unseen(self._known[name].subject, "it has no row")
        return rows[0]

    @cached_property
    def host(self) -> HostFacts:
        """Facts of the server's machine. Unseen if it is another one."""
        host = self.run.run.host
        if not host.get("same_host_as_server"):
            raise Unseen(
                "memory, cores and disks of the server's machine",
                "the server's processes are not visible on this machine",
                "run pgdyno check on the server's machine",
            )
        return host

    @cached_property
    def _settings(self) -> dict[str, SettingRow]:
        return {
            row["name"]: SettingRow(
                row["name"], row["setting"], row["unit"] or "", row["boot_val"], row["source"],
                row["context"], row["pending_restart"],
            )
            for row in self.rows("setting")
        }  # fmt: skip

    @property
    def settings(self) -> Sequence[SettingRow]:
        """All settings that this role may see."""
        return tuple(self._settings.values())

    def knows(self, name: str) -> bool:
        """Return whether a setting is there and visible."""
        return name in self._settings

    def setting(self, name: str) -> SettingRow:
        """Return a setting. Unseen if it is hidden from the role, or not in this version."""
        found = self._settings.get(name)
        if found is None:
            raise Unseen(
                f"the setting {name}",
                "this server does not have it"
                if self.is_superuser
                else "it is hidden from this role, or this server does not have it",
                "" if self.is_superuser else "GRANT pg_read_all_settings TO the role",
            )
        return found

    @property
    def is_superuser(self) -> bool:
        """True if the role of the check has all rights, so that no grant shows it more."""
        return bool(self.run.run.server.get("superuser"))

    @property
    def major(self) -> int:
        """The server's major version."""
        return int(self.row("server")["version_num"]) // 10_000

    @property
    def is_standby(self) -> bool:
        """True if the server is in recovery."""
        return bool(self.row("server")["in_recovery"])


def measured(
    name: str, value: float | str | None, unit: str, threshold: str | None = None
) -> Evidence:
    """Return a named number of a look, which has no time window."""
    return Evidence(name=name, value=value, unit=unit, threshold=threshold)


def proposed(
    remedy_id: str, why: str, settings: Mapping[str, str], *, guards: bool = False
) -> Proposal:
    """Return a change of settings whose gain no model predicts; ``guards``: it prevents a fault."""
    change = Change(settings=settings)
    return Proposal(
        remedy_id=remedy_id, change=change, predicted_ratio=NOT_PREDICTED, why=why, guards=guards
    )


def alter_system(settings: Mapping[str, str], *, restart: bool = False) -> list[str]:
    """Return the statements that set settings for the whole server."""
    lines = [f"ALTER SYSTEM SET {name} = {value}" for name, value in settings.items()]
    return [*lines, "-- then restart the server" if restart else "SELECT pg_reload_conf()"]


def pages_bytes(sight: Sight, pages: float) -> float:
    """Return the size of so many pages of the server."""
    return pages * float(sight.row("server")["block_bytes"])
