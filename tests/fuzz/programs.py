"""Commands as processes of their own, with what no command may do, whatever happens to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rounds import Said, scratch

PATIENCE_S = 600
"""Longer than any command here has to wait for anything."""


def own_home() -> Path:
    """A state directory that the server's account can enter, for this program alone."""
    home = scratch()
    home.chmod(0o755)
    os.environ["PGDYNO_HOME"] = str(home)
    return home


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A command that runs in ``folder``."""
    return subprocess.Popen(
        [sys.executable, "-m", "pgdyno", *arguments],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace",
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> Said | None:
    """What it said; None for what does not end, which is then killed."""
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    return Said(process.returncode, out, err)
