"""Profiles that come with pgdyno, as texts in the syntax of postgresql.conf.

Two are computed from the machine. A server may lack what a line needs (lz4, a setting of a later
version): such lines are left out and named.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from pgdyno.compare.profile_file import Profile, parse_profile
from pgdyno.errors import UsageError

_KB, _MB, _GB = 1 << 10, 1 << 20, 1 << 30


class MachineSize(Struct, frozen=True):
    """The machine that a profile is computed from."""

    memory_bytes: int
    cores: float


class OwnProfile(Struct, frozen=True):
    """A profile of pgdyno's."""

    summary: str
    """Description in a few words."""
    text: Callable[[MachineSize], str]
    computed: bool
    """True if it depends on the machine."""


def own_profile(name: str, machine: MachineSize) -> Profile:
    """Return the profile called ``name``."""
    own = OWN[name]
    profile = parse_profile(own.text(machine), name=name)
    return replace(profile, adapts=True, of_machine=own.computed)


def profile_text(name: str, machine: MachineSize) -> str:
    """Return the text of the profile called ``name``. Raises UsageError for another name."""
    if name not in OWN:
        raise UsageError(
            f'"{name}" is not a profile of pgdyno',
            code="profile-unknown",
            hint=f"there are {', '.join(OWN)}",
        )
    return OWN[name].text(machine)


def _size(size_bytes: float) -> str:
    """Return a size in the largest unit that divides it, in whole kilobytes."""
    kilobytes = math.floor(size_bytes / _KB)
    for unit, factor in (("GB", _GB // _KB), ("MB", _MB // _KB)):
        if kilobytes and kilobytes % factor == 0:
            return f"{kilobytes // factor}{unit}"
    return f"{kilobytes}kB"


_AGGRESSIVE = """\
# A profile for a first load of a very large database, after which durability is set up again.
# Source: Senzing, postgresql-performance, README ("I run pretty aggressively like").
# It may lose the last 30 s of commits, and after a power cut the database may be damaged.
synchronous_commit = off

lock_timeout = 500000
idle_in_transaction_session_timeout = 600000

checkpoint_timeout = 2min
checkpoint_completion_target = 0.9
max_wal_size = 80GB

full_page_writes = off
wal_init_zero = off
wal_level = minimal
wal_writer_delay = 10000ms
wal_recycle = off
max_wal_senders = 0

effective_io_concurrency = 1000
maintenance_io_concurrency = 1000
max_parallel_maintenance_workers = 16
max_parallel_workers_per_gather = 16
max_worker_processes = 16
max_parallel_workers = 16

autovacuum_max_workers = 16
autovacuum_vacuum_cost_limit = 10000
vacuum_cost_page_hit = 0
vacuum_cost_page_miss = 1
vacuum_cost_page_dirty = 1
vacuum_freeze_table_age = 1000000000
vacuum_freeze_min_age = 200000000
autovacuum_freeze_max_age = 1200000000
autovacuum_multixact_freeze_max_age = 1500000000
autovacuum_vacuum_scale_factor = 0.01
autovacuum_vacuum_insert_scale_factor = 0.01
autovacuum_vacuum_cost_delay = 0
autovacuum_naptime = 1min

default_toast_compression = lz4
enable_seqscan = off
random_page_cost = 1.1
"""


def _aggressive(_machine: MachineSize) -> str:
    return _AGGRESSIVE


def _pgtune(machine: MachineSize) -> str:
    """Return PGTune's values for the type "oltp" on solid-state disks, under Linux."""
    memory, cores = machine.memory_bytes, max(1, math.floor(machine.cores))
    connections = 300
    buffers = memory / 4
    workers = cores if cores >= 4 else 8
    work_mem = max((memory - buffers) / ((connections + workers) * 3), 4 * _MB)
    maintenance = min(memory / 16, 8 * _GB)
    wal_buffers = min(0.03 * buffers, 16 * _MB)
    wal_buffers = 16 * _MB if wal_buffers > 14 * _MB else max(wal_buffers, 32 * _KB)
    lines = {
        "max_connections": str(connections),
        "shared_buffers": _size(buffers),
        "effective_cache_size": _size(memory * 3 / 4),
        "maintenance_work_mem": _size(maintenance),
        "checkpoint_completion_target": "0.9",
        "wal_buffers": _size(wal_buffers),
        "default_statistics_target": "100",
        "random_page_cost": "1.1",
        "effective_io_concurrency": "200",
        "work_mem": _size(work_mem),
        "huge_pages": "try" if buffers >= 2 * _GB else "off",
        "min_wal_size": "2GB",
        "max_wal_size": "8GB",
        **_pgtune_workers(cores),
        "jit": "off",
        "wal_compression": "lz4",
    }
    if maintenance >= 2 * _GB:
        lines["autovacuum_work_mem"] = "2GB"
    return (
        "# PGTune's arithmetic (pgtune.leopard.in.ua) for the type oltp, Linux and solid-state"
        f" disks,\n# from {memory / _GB:.1f} GB of memory and {cores} cores.\n"
        + "".join(f"{name} = {value}\n" for name, value in lines.items())
    )


def _pgtune_workers(cores: int) -> dict[str, str]:
    """Return PGTune's numbers of processes; it leaves the defaults with fewer than four cores."""
    if cores < 4:
        return {}
    several = min(math.ceil(cores / 2), 4)
    names = {
        "max_worker_processes": cores,
        "max_parallel_workers_per_gather": several,
        "max_parallel_workers": cores,
        "max_parallel_maintenance_workers": several,
    }
    if cores >= 16:
        names["autovacuum_max_workers"] = 5 if cores >= 32 else 4
    return {name: str(value) for name, value in names.items()}


def _cautious(machine: MachineSize) -> str:
    memory = machine.memory_bytes
    buffers = max(min(memory / 4, 8 * _GB) // (128 * _MB), 1) * 128 * _MB
    return f"""\
# Settings that lose nothing, for a server that is written to: no commit is acknowledged earlier
# than by default. Computed from {memory / _GB:.1f} GB of memory.
shared_buffers = {_size(buffers)}
effective_cache_size = {_size(memory // 2 // _MB * _MB)}

# Fewer checkpoints, and so fewer full-page images; crash recovery takes longer.
max_wal_size = 4GB
checkpoint_timeout = 15min
wal_compression = on
wal_buffers = 16MB

# Dead rows are removed sooner, and in smaller portions.
autovacuum_naptime = 15s
autovacuum_vacuum_scale_factor = 0.05
autovacuum_vacuum_cost_limit = 1000

# Plans for solid-state disks, and no compilation of short statements.
random_page_cost = 1.1
jit = off
"""


OWN = {
    "cautious": OwnProfile("loses nothing", _cautious, computed=True),
    "pgtune": OwnProfile("PGTune's arithmetic for this machine", _pgtune, computed=True),
    "aggressive": OwnProfile("for first loads, loses commits", _aggressive, computed=False),
}
"""By name, in the order in which help lists them."""
