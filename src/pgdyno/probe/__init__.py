"""Probes, which sample the server's views and the host during a run, and facts of the host.

``Probes`` samples once a second, and wait events ten times a second. It writes to the run file's
metric tables, to wait_sample, and events of the kinds checkpoint, vacuum and probe. The SQL is in
``sql/``, one file per view and range of server versions.

Figures are cumulative, as the server and the kernel count them. Backends report their counts at
most once a second, so metric_database, metric_table and metric_io are uneven from one second to the
next; positions in the WAL, checkpoints, locks and waits are exact to the sample.
"""

from __future__ import annotations

from pgdyno.probe._disks import SYS_BLOCK, device_of, wal_directory
from pgdyno.probe._facts import host_facts, is_local, locate_postmaster
from pgdyno.probe._probes import HostProbes, Pace, Probes
from pgdyno.probe._server_sampler import OFF as TRACKED
from pgdyno.probe._server_sampler import OTHER_SESSIONS

__all__ = [
    "OTHER_SESSIONS",
    "SYS_BLOCK",
    "TRACKED",
    "HostProbes",
    "Pace",
    "Probes",
    "device_of",
    "host_facts",
    "is_local",
    "locate_postmaster",
    "wal_directory",
]
