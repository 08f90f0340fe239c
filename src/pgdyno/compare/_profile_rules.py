"""Rules about the lines of a profile: which contradict each other, and which have no effect beside
what else is in force. Source of each: PostgreSQL's documentation, "Server Configuration", and the
checks of a server's start (postmaster.c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct

from pgdyno.errors import UsageError
from pgdyno.server import Setting
from pgdyno.server.settings.setting_values import as_shown, in_base_unit


class Values:
    """Settings of a server, with the lines of a profile in place of the values in force."""

    def __init__(self, found: Mapping[str, Setting], given: Mapping[str, str]) -> None:
        self._found = found
        self._given = given

    def given(self, name: str) -> bool:
        """True if the profile has a line for the setting."""
        return name in self._given

    def known(self, name: str) -> bool:
        """True if the server has the setting."""
        return name in self._found

    def word(self, name: str) -> str:
        """Return the value as pg_settings would show it, in lower case; '' for an unknown
        setting."""
        setting = self._found.get(name)
        if setting is None:
            return ""
        if name not in self._given:
            return setting.value.lower()
        try:
            return as_shown(setting, self._given[name]).lower()
        except UsageError:
            return ""

    def number(self, name: str) -> float | None:
        """Return the value in the setting's own unit; None if there is none."""
        setting = self._found.get(name)
        if setting is None:
            return None
        try:
            return in_base_unit(setting, self._given.get(name, setting.value))
        except UsageError:
            return None

    def size_bytes(self, name: str) -> float | None:
        """Return a setting of memory or disk space in bytes."""
        number, setting = self.number(name), self._found.get(name)
        if number is None or setting is None or setting.unit is None:
            return None
        units = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20}
        return number * units[setting.unit] if setting.unit in units else None

    def is_off(self, name: str) -> bool:
        """True if a switch of the server is off."""
        return self.word(name) == "off"

    def above(self, name: str, other: str, share: float = 1.0) -> bool:
        """True if the number of one setting is above ``share`` of another one's."""
        one, two = self.number(name), self.number(other)
        return one is not None and two is not None and one > share * two


class ProfileRule(Struct, frozen=True):
    """A statement about lines for some settings, if ``holds``."""

    settings: tuple[str, ...]
    """Names; one that ends with * stands for all that begin like it."""
    holds: Callable[[Values], bool]
    sentence: str
    reads: tuple[str, ...] = ()
    """The other settings that it compares them with."""

    def about(self, name: str) -> bool:
        """Return whether the rule is about a setting."""
        return any(
            name.startswith(each[:-1]) and name not in self.reads
            if each.endswith("*")
            else name == each
            for each in self.settings
        )


def _minimal(values: Values) -> bool:
    return values.word("wal_level") == "minimal"


def _reserved_too_many(values: Values) -> bool:
    reserved = (
        values.number(name) or 0.0
        for name in ("superuser_reserved_connections", "reserved_connections")
    )
    connections = values.number("max_connections")
    return connections is not None and sum(reserved) >= connections


REFUSED_TOGETHER = (
    ProfileRule(
        ("wal_level", "max_wal_senders"),
        lambda v: _minimal(v) and (v.number("max_wal_senders") or 0) > 0,
        "with wal_level = minimal a server starts only with max_wal_senders = 0",
    ),
    ProfileRule(
        ("wal_level", "archive_mode"),
        lambda v: _minimal(v) and v.word("archive_mode") in ("on", "always"),
        "with wal_level = minimal a server does not start with archive_mode on",
    ),
    ProfileRule(
        ("wal_level", "summarize_wal"),
        lambda v: _minimal(v) and v.word("summarize_wal") == "on",
        "with wal_level = minimal a server does not start with summarize_wal on",
    ),
    ProfileRule(
        ("max_connections", "superuser_reserved_connections", "reserved_connections"),
        _reserved_too_many,
        "the reserved connections must be fewer than max_connections",
    ),
)
"""Settings with which together a server does not start."""

_NO_COMMIT_WAITS = "without effect: no commit waits for a flush here"


def _never_waits(values: Values) -> bool:
    return values.is_off("synchronous_commit") or values.is_off("fsync")


def _no_cost_delay(values: Values) -> bool:
    own, of_vacuum = (
        values.number(name) for name in ("autovacuum_vacuum_cost_delay", "vacuum_cost_delay")
    )
    return own == 0 or (own == -1 and of_vacuum == 0)


def _never_delays(values: Values) -> bool:
    return _no_cost_delay(values) and values.number("vacuum_cost_delay") == 0


WITHOUT_EFFECT = (
    ProfileRule(
        ("autovacuum_*", "log_autovacuum_min_duration"),
        lambda v: v.is_off("autovacuum"),
        "without effect while autovacuum is off, except to prevent wraparound",
        ("autovacuum", "autovacuum_freeze_max_age", "autovacuum_multixact_freeze_max_age"),
    ),
    ProfileRule(
        ("autovacuum_vacuum_cost_limit",),
        _no_cost_delay,
        "without effect: autovacuum does not pause (autovacuum_vacuum_cost_delay is 0)",
        ("autovacuum_vacuum_cost_delay", "vacuum_cost_delay"),
    ),
    ProfileRule(
        (
            *("vacuum_cost_page_hit", "vacuum_cost_page_miss", "vacuum_cost_page_dirty"),
            "vacuum_cost_limit",
        ),
        _never_delays,
        "without effect: no vacuum pauses (vacuum_cost_delay and autovacuum_vacuum_cost_delay are"
        " 0)",
        ("autovacuum_vacuum_cost_delay", "vacuum_cost_delay"),
    ),
    ProfileRule(("commit_delay", "commit_siblings"), _never_waits, _NO_COMMIT_WAITS,
         ("synchronous_commit", "fsync")),
    ProfileRule(("wal_sync_method",), lambda v: v.is_off("fsync"), "without effect: fsync is off",
         ("fsync",)),
    ProfileRule(
        ("commit_siblings",),
        lambda v: v.number("commit_delay") == 0,
        "without effect: commit_delay is 0",
        ("commit_delay",),
    ),
    ProfileRule(
        ("wal_compression",),
        lambda v: v.is_off("full_page_writes"),
        "nearly without effect: it compresses the full-page images that full_page_writes = off"
        " leaves out",
        ("full_page_writes",),
    ),
    ProfileRule(("jit_*",), lambda v: v.is_off("jit"), "without effect: jit is off", ("jit",)),
    ProfileRule(("geqo_*",), lambda v: v.is_off("geqo"), "without effect: geqo is off", ("geqo",)),
    *(
        ProfileRule(
            (name,),
            partial(Values.above, name=name, other="max_parallel_workers"),
            "more than max_parallel_workers have no effect",
            ("max_parallel_workers",),
        )
        for name in ("max_parallel_workers_per_gather", "max_parallel_maintenance_workers")
    ),
    ProfileRule(
        ("max_parallel_workers",),
        lambda v: v.above("max_parallel_workers", "max_worker_processes"),
        "more than max_worker_processes have no effect",
        ("max_worker_processes",),
    ),
    ProfileRule(
        ("autovacuum_max_workers",),
        lambda v: v.above("autovacuum_max_workers", "autovacuum_worker_slots"),
        "more than autovacuum_worker_slots have no effect",
        ("autovacuum_worker_slots",),
    ),
    ProfileRule(
        ("bgwriter_lru_multiplier",),
        lambda v: v.number("bgwriter_lru_maxpages") == 0,
        "without effect: bgwriter_lru_maxpages is 0",
        ("bgwriter_lru_maxpages",),
    ),
    ProfileRule(
        ("vacuum_freeze_min_age",),
        lambda v: v.above("vacuum_freeze_min_age", "autovacuum_freeze_max_age", 0.5),
        "limited to half of autovacuum_freeze_max_age",
        ("autovacuum_freeze_max_age",),
    ),
    ProfileRule(
        ("vacuum_freeze_table_age",),
        lambda v: v.above("vacuum_freeze_table_age", "autovacuum_freeze_max_age", 0.95),
        "limited to 95 % of autovacuum_freeze_max_age",
        ("autovacuum_freeze_max_age",),
    ),
    ProfileRule(
        ("min_wal_size",),
        lambda v: v.above("min_wal_size", "max_wal_size"),
        "above max_wal_size, which limits the WAL that is kept",
        ("max_wal_size",),
    ),
    ProfileRule(
        ("synchronous_commit",),
        lambda v: v.word("synchronous_commit") in ("remote_write", "remote_apply")
        and not v.word("synchronous_standby_names"),
        "the same as on without synchronous_standby_names",
        ("synchronous_standby_names",),
    ),
)  # fmt: skip
"""Lines that do nothing, or less than they say."""


def names_read() -> set[str]:
    """Return the settings that the rules compare, without those that stand for several."""
    rules = (*REFUSED_TOGETHER, *WITHOUT_EFFECT)
    names = {name for rule in rules for name in (*rule.settings, *rule.reads)}
    return {name for name in names if not name.endswith("*")}
