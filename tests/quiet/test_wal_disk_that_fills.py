"""A WAL disk that fills up under a real load: found in time, and not where nothing fills."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from signature_runs import carried_out, status

from pgdyno.conduct import Silent
from pgdyno.diagnose import Finding

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a tmpfs"),
]


class Notes(Silent):
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def on_tmpfs(folder: Path, **more: Any) -> tuple[Finding, list[str]]:
    """The finding, and the warnings, of a short run with WAL in memory."""
    watcher = Notes()
    findings = carried_out(
        folder,
        script="simple-update",
        hold="3s",
        disk={"wal": "tmpfs:256MB"},
        watcher=watcher,
        **more,
    )
    finding = findings["disk-filling"]
    assert finding.status != "skipped", status(findings)
    warnings = [note for note in watcher.notes if note.startswith("warning: ")]
    return finding, warnings


def test_a_wal_disk_too_small_is_found_before_the_panic(tmp_path: Path) -> None:
    finding, warnings = on_tmpfs(tmp_path)
    assert finding.status == "found"
    assert finding.sentence.startswith("the disk of the WAL (tmpfs) will be full in ")
    (proposal,) = finding.proposals
    assert [*proposal.change.settings] == ["max_wal_size"]
    assert warnings[0] == snapshot(
        "warning: the WAL has 256 MB of disk space, and may grow beyond max_wal_size = 1GB before"
        " a checkpoint removes any of it; a full WAL disk stops the server"
    )


def test_a_wal_that_fits_is_not(tmp_path: Path) -> None:
    finding, warnings = on_tmpfs(tmp_path, settings={"max_wal_size": "96MB"})
    # The disk of the data is the machine's, and others may be filling it.
    of_data = finding.sentence.startswith("the disk of the data ")
    assert finding.status == "cleared" or of_data, finding.sentence
    assert not [warning for warning in warnings if "WAL" in warning]
