"""The defaults in which two versions differ, and the settings that make them equal.

Both servers' pg_settings tell which they are: what has another value in a new session of one than
of the other, without anybody having set it. A setting that only the newer version has gets the
value with which that works as versions without the setting did, where there is one. The older
version's values are used for both, as the newer one accepts them more often than the other way
round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.results.versions import LevelledSetting, UnequalSetting
from pgdyno.server import Installation
from pgdyno.server.connecting.facts import Build, SettingHere
from pgdyno.server.local.startup import accepts
from pgdyno.server.versions import plain_version

WITHOUT_IT: Mapping[str, str] = {
    # Release notes of 16: sorted input of aggregates; the ring of VACUUM had a fixed size.
    "enable_presorted_aggregate": "off",
    "vacuum_buffer_usage_limit": "256kB",
    # Of 17: reads of several blocks in one call.
    "enable_group_by_reordering": "off",
    "io_combine_limit": "8kB",
    # Of 18: asynchronous I/O, limits of autovacuum and vacuum, planning.
    "io_method": "sync",
    "autovacuum_vacuum_max_threshold": "-1",
    "vacuum_max_eager_freeze_failure_rate": "0",
    "enable_distinct_reordering": "off",
    "enable_self_join_elimination": "off",
    # Of 19: aggregation before joins; the clock. Without weights autovacuum takes the tables in the
    # order of pg_class, as before ("Autovacuum Prioritization" in the manual).
    "enable_eager_aggregate": "off",
    "timing_clock_source": "system",
    "autovacuum_analyze_score_weight": "0",
    "autovacuum_freeze_score_weight": "0",
    "autovacuum_multixact_freeze_score_weight": "0",
    "autovacuum_vacuum_insert_score_weight": "0",
    "autovacuum_vacuum_score_weight": "0",
}
"""Setting → the value with which a version that has it works as those without it."""
_IN_PLACE_OF = {"io_min_workers": "io_workers", "io_max_workers": "io_workers"}
"""Setting → the one that it replaces, whose value it gets; without that one it has no effect."""
_NO_EFFECT = frozenset(
    {
        # With io_method = sync there is nothing to combine or to do in workers, and as many as
        # there are at least and at most are neither started nor ended.
        *("io_workers", "io_max_concurrency", "io_max_combine_limit"),
        *("io_worker_idle_timeout", "io_worker_launch_interval"),
        # They are about what is off: by default, or once it is levelled.
        *("autovacuum_max_parallel_workers", "min_eager_agg_group_size"),
        # They limit what is set elsewhere, or keep what was always so.
        *("autovacuum_worker_slots", "file_copy_method", "vacuum_truncate", "recovery_prefetch"),
        *("wal_decode_buffer_size", "wal_summary_keep_time", "allow_alter_system"),
    }
)
"""Settings of one version alone whose default changes nothing for a load."""
_NOT_OF_A_LOAD = ("Preset Options", "File Locations", "Connections and Authentication",
                  "Developer Options", "Replication", "Client Connection Defaults / Locale",
                  "Reporting and Logging / Process Title", "Customized Options")  # fmt: skip
"""Beginnings of categories whose settings are facts of a server, or have no part in a load."""
_OF_SPEED = ("Autovacuum", "Vacuuming", "Query Tuning", "Resource Usage", "Write-Ahead Log",
             "Lock Management")  # fmt: skip
_OFF = ("off", "", "-1")
CHECKSUMS = "data_checksums"


class Levelling(Struct, frozen=True):
    """Settings that make two servers equal in their defaults."""

    levelled: tuple[LevelledSetting, ...] = ()
    not_levelled: tuple[UnequalSetting, ...] = ()
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """``before`` and ``after`` → settings of that side."""
    checksums: Mapping[str, bool] = field(default_factory=dict)
    """Side → whether it is made with data checksums."""

    def keys(self, side: str) -> dict[str, str]:
        """Return the keys of a change that level a side, besides the one that names its server."""
        keys = {f"server.settings.{n}": v for n, v in self.settings.get(side, {}).items()}
        if side in self.checksums:
            keys["server.checksums"] = "true" if self.checksums[side] else "false"
        return keys


@dataclass
class _Sides:
    """Both builds, the older one first."""

    builds: Mapping[str, Build]
    installations: Mapping[str, Installation]
    older: str
    newer: str

    def of(self, side: str, name: str) -> SettingHere | None:
        return self.builds[side].settings.get(name)

    def takes(self, side: str, name: str, value: str) -> bool:
        return accepts(self.installations[side], {name: value})


def level(
    builds: tuple[Build, Build],
    installations: tuple[Installation, Installation],
    chosen: Collection[str],
) -> Levelling:
    """Return the settings that make the defaults of both builds equal; ``chosen`` are set for both
    by the user."""
    sides = ("before", "after")
    newer = "after" if builds[1].version_num >= builds[0].version_num else "before"
    both = _Sides(
        dict(zip(sides, builds, strict=True)),
        dict(zip(sides, installations, strict=True)),
        older="before" if newer == "after" else "after",
        newer=newer,
    )
    levelled: list[LevelledSetting] = []
    unequal: list[UnequalSetting] = []
    settings: dict[str, dict[str, str]] = {"before": {}, "after": {}}
    checksums: dict[str, bool] = {}
    for name in _differing(both, frozenset(chosen)):
        before, after = (
            None if here is None else here.shown for here in (both.of(side, name) for side in sides)
        )
        if name == CHECKSUMS:
            wanted = both.of(both.older, name)
            value = "off" if wanted is None else wanted.shown
            checksums[both.newer] = value == "on"
            levelled.append(LevelledSetting(name=name, before=before, after=after,
                                            levelled=value, by="initdb"))  # fmt: skip
            continue
        side, setting, why = _made_equal(both, name)
        if why:
            unequal.append(UnequalSetting(name=name, before=before, after=after, why=why))
            continue
        settings[side][name] = setting
        levelled.append(LevelledSetting(name=name, before=before, after=after,
                                        levelled=setting, by="setting"))  # fmt: skip
    return Levelling(tuple(levelled), tuple(unequal), settings, checksums)


def _made_equal(both: _Sides, name: str) -> tuple[str, str, str]:
    """Return the side to set, its value, and '' — or why the setting cannot be made equal."""
    old, new = both.of(both.older, name), both.of(both.newer, name)
    versions = {side: plain_version(build.version) for side, build in both.builds.items()}
    if old is None or new is None:
        side = both.newer if old is None else both.older
        value = _value_without_it(both, name)
        if value is not None and both.takes(side, name, value):
            return side, value, ""
        return side, "", f"only PostgreSQL {versions[side]} has it"
    if "internal" in (old.context, new.context):
        return "", "", "it is fixed in the build"
    for side, value in ((both.newer, old.shown), (both.older, new.shown)):
        if both.takes(side, name, value):
            return side, value, ""
    return "", "", "neither version takes the other's value"


def _value_without_it(both: _Sides, name: str) -> str | None:
    """Return the value with which the version that has ``name`` works as the other one."""
    replaced = both.of(both.older, _IN_PLACE_OF.get(name, ""))
    return WITHOUT_IT.get(name) if replaced is None else replaced.shown


def _differing(both: _Sides, chosen: Collection[str]) -> Iterator[str]:
    """Yield the names of the settings that differ, those that initdb decides first."""
    names = {name for build in both.builds.values() for name in build.settings}
    for name in sorted(names - set(chosen), key=lambda each: (each != CHECKSUMS, each)):
        found = [here for side in both.builds if (here := both.of(side, name))]
        if name == CHECKSUMS:
            if len({here.shown for here in found}) > 1:
                yield name
        elif any(here.category.startswith(_NOT_OF_A_LOAD) for here in found):
            continue
        elif len(found) == 2:
            if _differ(*found):
                yield name
        elif _matters_alone(both, name, found[0]):
            yield name


def _differ(one: SettingHere, other: SettingHere) -> bool:
    """True if the values differ, which may be in another unit: the built-in defaults, or what
    initdb has made of them."""
    if one.unit == other.unit:
        return _plain(one.value) != _plain(other.value)
    return one.shown != other.shown


def _plain(value: str | None) -> str:
    """Return the value; log_connections, a list from 18 on, is empty where it was off."""
    return "off" if value in (None, "", "off") else value


def _matters_alone(both: _Sides, name: str, here: SettingHere) -> bool:
    """True if a setting of one version alone may make a difference as it is shipped."""
    if name in WITHOUT_IT:
        return True
    if name in _IN_PLACE_OF:
        return both.of(both.older, _IN_PLACE_OF[name]) is not None
    off = (here.value or "") in _OFF
    return name not in _NO_EFFECT and here.category.startswith(_OF_SPEED) and not off
