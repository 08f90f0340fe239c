"""Programs of the system, which users' PATH often leaves out."""

from __future__ import annotations

import os
import shutil

_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def system_path() -> str:
    """Return the PATH with the directories of system programs at its end."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_DIRECTORIES))


def find_program(name: str) -> str | None:
    """Return the path of a program, or ``None`` if it is not installed."""
    return shutil.which(name, path=system_path())
