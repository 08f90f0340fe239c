"""One load with its disks recorded, with checkpoints forced during it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.drill._drill import disturbed_from_outside
from pgdyno.drill.power._images import Recorded
from pgdyno.drill.power._kept import is_kept, keep, take_up
from pgdyno.drill.power._loaded import RecordedLoad
from pgdyno.drill.power._names import ask_names
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.disk import Device
    from pgdyno.drill._drill import Drill

LOAD_S = 5.0
"""How long the recorded load runs, when nothing else is asked for."""
CHECKPOINT_EVERY_S = 0.9
"""While a checkpoint writes, most is pending on the disks, so a load should meet several."""


def recorded_load(drill: Drill) -> RecordedLoad:
    """A recorded load: a kept one if the options name one, else one of now; the server is down."""
    named = drill.options.recording
    folder = Path(named).expanduser() if named else None
    if folder and is_kept(folder):
        drill.begin_outage()
        drill.cluster.stop()
        return take_up(drill, folder)
    load = _record(drill)
    if folder:
        keep(load, drill, [each.log for each in _devices(drill) if each.log], folder)
    return load


def _record(drill: Drill) -> RecordedLoad:
    """Carry the load out; afterwards the server is down and its disks are no longer recorded.

    The recording begins when the load already runs, so that no cut lies before it.
    In a sham the recording ends only when the server has shut down in order and all is flushed.
    """
    devices = _devices(drill)
    drill.session.watcher.phase("recording the disks under load")
    drill.begin_load()
    for device in devices:
        device.start_recording()
    marks_ns = _load_with_checkpoints(drill)
    with drill.session.connect() as conn:
        names = ask_names(conn)
    drill.begin_outage()
    acks = drill.end_load()
    if drill.options.sham:
        drill.cluster.stop()
        for device in devices:
            device.sync()
    for device in devices:
        device.stop_recording()
    drill.cluster.kill()
    if drill.disturbed or drill.cluster.ended_by:
        drill.look_for_kills()
        raise disturbed_from_outside(drill.disturbed)
    return RecordedLoad(_recorded(devices), acks, names, marks_ns)


def _devices(drill: Drill) -> list[Device]:
    """The recording disks of the server, the one with the data first."""
    places = drill.session.target.disks
    assert places is not None, "a server of pgdyno's own has places"
    devices = places.recorded
    if not devices:
        raise UsageError("the data is on no recording disk", code="bad-disk")
    return devices


def _load_with_checkpoints(drill: Drill) -> list[int]:
    """Let the load run, checkpoint after checkpoint; when each began and ended."""
    session, marks_ns = drill.session, []
    ends_s = time.monotonic() + (drill.options.load_s or LOAD_S)
    with session.connect() as conn:
        while (left_s := ends_s - time.monotonic()) > 0:
            session.wait(min(CHECKPOINT_EVERY_S, left_s))
            marks_ns.append(time.monotonic_ns())
            conn.execute("checkpoint")
            marks_ns.append(time.monotonic_ns())
    return marks_ns


def _recorded(devices: Sequence[Device]) -> Recorded:
    from pgdyno._engine import DiskLogs

    logs = DiskLogs([device.log for device in devices if device.log])
    return Recorded(logs, [device.base for device in devices], [device.fs for device in devices])
