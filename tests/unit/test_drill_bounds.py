"""What the documentation allows to be lost, by fault and settings."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from pgdyno.drill._bounds import Bound
from pgdyno.drill.fault import find_fault
from pgdyno.remedy import Circumstances
from pgdyno.spec import DiskSpec
from pgdyno.spec.server_settings import ActiveSettings

DEFAULTS = {
    "synchronous_commit": "on",
    "wal_writer_delay": "200ms",
    "wal_writer_flush_after": "1MB",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_standby_names": "",
}


def documented_bound(fault: str, settings: dict[str, str], *, wal: str = "data") -> Bound:
    """What the fault may take where these settings are in force and the WAL lies there."""
    in_force = Circumstances(ActiveSettings(settings), disk=DiskSpec(wal=wal))
    return find_fault(fault).bound(in_force)


CRASHES = ["kill", "immediate", "during-recovery", "disk-full", "power"]


@pytest.mark.parametrize("fault", [*CRASHES, "stop"])
def test_the_defaults_lose_nothing(fault: str) -> None:
    assert documented_bound(fault, DEFAULTS).ms == 0


@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize(("delay", "bound_ms"), [("200ms", 600), ("1s", 3000), ("10ms", 30)])
def test_a_commit_that_does_not_wait(fault: str, delay: str, bound_ms: float) -> None:
    settings = {**DEFAULTS, "synchronous_commit": "off", "wal_writer_delay": delay}
    assert documented_bound(fault, settings).ms == bound_ms
    assert documented_bound("stop", settings).ms == 0


def test_bound_in_words_names_the_settings() -> None:
    settings = {**DEFAULTS, "synchronous_commit": "off"}
    at_once = {**settings, "wal_writer_flush_after": "0"}
    assert [documented_bound("kill", each).words for each in (settings, at_once)] == snapshot(
        [
            "with synchronous_commit = off the commits of the last 600ms may be lost, three times wal_writer_delay; less if 1MB of WAL is written sooner",
            "with synchronous_commit = off the commits of the last 600ms may be lost, three times wal_writer_delay; less under load, because wal_writer_flush_after = 0 flushes with every write",
        ]
    )


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_what_only_a_power_cut_shows(name: str) -> None:
    settings = {**DEFAULTS, name: "off"}
    assert documented_bound("kill", settings).ms == 0
    bound = documented_bound("power", settings)
    assert bound.ms is None
    assert name in bound.words


@pytest.mark.parametrize(
    ("level", "standby", "bound_ms"),
    [
        ("on", "*", 0),
        ("remote_apply", "*", 0),
        ("remote_write", "*", 0),
        ("local", "*", None),
        ("off", "*", None),
        ("on", "", None),
    ],
)
def test_without_the_wal_a_standby_decides(
    level: str, standby: str, bound_ms: float | None
) -> None:
    settings = {**DEFAULTS, "synchronous_commit": level, "synchronous_standby_names": standby}
    assert documented_bound("wal-device", settings).ms == bound_ms
    assert documented_bound("power", settings, wal="tmpfs:1GB").ms == bound_ms
