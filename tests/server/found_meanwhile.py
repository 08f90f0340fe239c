"""Findings on a load beside which something happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from pgdyno.conduct import Session, Silent, carry_out, open_session
from pgdyno.diagnose import Finding, diagnose
from pgdyno.record import RunFile
from pgdyno.spec import Spec


def found_meanwhile(
    spec: Spec, path: Path, during: Callable[[Session], None] | None = None
) -> dict[str, Finding]:
    """Findings by id on a run of ``spec``, with ``during`` in a thread of its own."""
    with open_session(spec, run=path, command="run", spec_text="", watcher=Silent()) as session:
        doing = threading.Thread(target=during, args=[session]) if during else None
        if doing:
            doing.start()
        slice_ids = carry_out(session)
        if doing:
            doing.join()
        session.recorder.flush()
        with RunFile(path) as run:
            return {each.id: each for each in diagnose(run, slice_ids).findings}
