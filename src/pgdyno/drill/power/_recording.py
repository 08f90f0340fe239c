"""Recording of the disks during one load, with checkpoints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.drill._evidence import disturbed_from_outside
from pgdyno.drill.power._images import Recorded, RecordedLoad
from pgdyno.drill.power._location import read_names
from pgdyno.drill.power._saved import is_recording, load_recording, save_recording
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.disk import EmulatedDevice
    from pgdyno.drill._drill import LoadedServer

LOAD_S = 5.0
"""Default duration of the recorded load."""
CHECKPOINT_EVERY_S = 0.9
"""Interval of checkpoints: most writes are pending during one, so a load includes several."""


def recorded_load(drill: LoadedServer) -> RecordedLoad:
    """Return a recorded load, and stop the server.

    The load is read from the directory of the option ``recording`` if that has one, and otherwise
    recorded now, and saved there if the option is given.
    """
    option = drill.options.recording
    directory = Path(option).expanduser() if option else None
    if directory and is_recording(directory):
        drill.begin_outage()
        drill.cluster.stop()
        return load_recording(drill, directory)
    load = _record(drill)
    if directory:
        logs = [each.log for each in _devices(drill) if each.log]
        save_recording(load, drill, logs, directory)
    return load


def _record(drill: LoadedServer) -> RecordedLoad:
    """Run the load with recorded disks; then end the recording and stop the server.

    The recording starts after the load, so that no cut is before it. In a sham it ends after the
    server has shut down and everything is flushed.
    """
    devices = _devices(drill)
    drill.session.watcher.phase("recording the disks under load")
    drill.begin_load()
    for device in devices:
        device.start_recording()
    marks_ns = _load_with_checkpoints(drill)
    with drill.session.connect() as conn:
        names = read_names(conn)
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


def _devices(drill: LoadedServer) -> list[EmulatedDevice]:
    """Return the recording disks of the server, that of the data first."""
    disks = drill.session.target.disks
    assert disks is not None, "a server started by pgdyno has disks"
    devices = disks.recorded
    if not devices:
        raise UsageError("the data is not on a recording disk", code="bad-disk")
    return devices


def _load_with_checkpoints(drill: LoadedServer) -> list[int]:
    """Wait for the end of the load, with checkpoints; return their starts and ends."""
    session, marks_ns = drill.session, []
    ends_s = time.monotonic() + (drill.options.load_s or LOAD_S)
    with session.connect() as conn:
        while (left_s := ends_s - time.monotonic()) > 0:
            session.wait(min(CHECKPOINT_EVERY_S, left_s))
            marks_ns.append(time.monotonic_ns())
            conn.execute("checkpoint")
            marks_ns.append(time.monotonic_ns())
    return marks_ns


def _recorded(devices: Sequence[EmulatedDevice]) -> Recorded:
    from pgdyno._engine import DiskLogs

    logs = DiskLogs([device.log for device in devices if device.log])
    return Recorded(logs, [device.base for device in devices], [device.fs for device in devices])
