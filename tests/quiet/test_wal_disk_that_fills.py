"""A WAL disk that fills up under a real load: found in time, and not where nothing fills."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from signature_runs import carried_out, status

from pgdyno.conduct import Silent

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


def on_tmpfs(folder: Path, **more: Any) -> tuple[str, str, list[str]]:
    """Status and sentence of the finding, and the warnings, of a short run with WAL in memory."""
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
    return finding.status, finding.sentence, warnings


def test_a_wal_disk_too_small_is_found_before_the_panic(tmp_path: Path) -> None:
    found, sentence, warnings = on_tmpfs(tmp_path)
    assert found == "found"
    assert sentence.startswith("the disk of the WAL (tmpfs) will be full in ")
    assert "the server ends with a PANIC: the WAL has 256 MB of disk space" in sentence
    assert warnings[0] == (
        "warning: the WAL has 256 MB of disk space, and may grow beyond max_wal_size = 1GB before"
        " a checkpoint removes any of it; a full WAL disk stops the server"
    )


def test_a_wal_that_fits_is_not(tmp_path: Path) -> None:
    found, sentence, warnings = on_tmpfs(tmp_path, settings={"max_wal_size": "96MB"})
    # The disk of the data is the machine's, and others may be filling it.
    assert found == "cleared" or sentence.startswith("the disk of the data "), sentence
    assert not [warning for warning in warnings if "WAL" in warning]
