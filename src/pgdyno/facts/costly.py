"""Settings that cost CPU time for each statement, image or byte, by counters and a time of each.

The times are calibrated on 2 cores: select-only took 20 us of CPU time per statement, 22 with
log_statement = all and 26 with log_min_duration_statement = 0; a WAL buffer that was full took
0.2 ms with wal_buffers = 32kB; pglz takes 80 us for a page. A statement by primary key took 8
to 10 us more with plan_cache_mode = force_custom_plan, on a busy machine; 6 us are counted, as for
``parse-plan``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from pgdyno.facts.slices import Facts
from pgdyno.spec.server_settings import DEFAULTS

LOG_CPU_S = 4e-6
PLAN_AGAIN_CPU_S = 6e-6
PGLZ_PAGE_CPU_S = 80e-6
BUFFER_FULL_CPU_S = 200e-6
WAL_BUFFERS_MIN_BYTES = 1 << 20
"""The default is 4 MB with 128 MB of shared_buffers; a smaller one was set."""
_ALWAYS_LOGGED = {
    "log_statement": ("all", "mod"),
    "log_min_duration_statement": ("0",),
    "log_duration": ("on",),
    "log_min_duration_sample": ("0",),
}
_PLANNED = re.compile(r"\s*(?:select|insert|update|delete|merge|with|values)\b", re.IGNORECASE)


class Costly(Struct, frozen=True):
    """A setting, and the cores that it costs."""

    setting: str
    value: str
    cores: float
    why: str


def costly_settings_of(s: Facts) -> list[Costly]:
    """Return the settings that cost CPU time under this load, the dearest first."""
    found = [*_logging(s), *_planning(s), *_compression(s), *_wal_buffers(s)]
    return sorted(found, key=lambda each: -each.cores)


def _logging(s: Facts) -> Iterator[Costly]:
    for name, values in _ALWAYS_LOGGED.items():
        value = s.settings.text(name) or DEFAULTS[name]
        if value.lower() in values:
            cores = s.statements_per_s * LOG_CPU_S
            yield Costly(name, value, cores, "each statement is written to the server's log")


def _planning(s: Facts) -> Iterator[Costly]:
    """Prepared statements only: others are planned each time whatever the setting."""
    value = (s.settings.text("plan_cache_mode") or "auto").lower()
    if value == "force_custom_plan" and s.protocol == "prepared":
        planned = sum(each.done for each in s.statements if _PLANNED.match(each.statement))
        cores = planned / s.seconds * PLAN_AGAIN_CPU_S
        yield Costly(
            "plan_cache_mode", value, cores, "each execution of a prepared statement is planned"
        )


def _compression(s: Facts) -> Iterator[Costly]:
    value, wal = (s.settings.text("wal_compression") or "off").lower(), s.wal_if_recorded
    if value in ("pglz", "on") and wal is not None:
        cores = (wal.full_page_images or 0.0) / s.seconds * PGLZ_PAGE_CPU_S
        yield Costly("wal_compression", value, cores, "full-page images are compressed with pglz")


def _wal_buffers(s: Facts) -> Iterator[Costly]:
    size, wal = s.settings.size_bytes("wal_buffers"), s.wal_if_recorded
    if size is not None and 0 <= size < WAL_BUFFERS_MIN_BYTES and wal is not None:
        cores = (wal.buffers_full or 0.0) / s.seconds * BUFFER_FULL_CPU_S
        value = str(s.settings.text("wal_buffers"))
        yield Costly("wal_buffers", value, cores, "sessions write WAL to make room in its buffers")
