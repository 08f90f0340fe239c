"""The memory of a pause: a governor that is started again goes on with it."""

from __future__ import annotations

import json
from pathlib import Path

from pgdyno.errors import SetupError
from pgdyno.files import write_whole
from pgdyno.server.directories import govern_dir


def was_paused(system_identifier: str) -> bool:
    """Return whether the last governor of this server left its loaders paused: there is a file for
    as long as they are, and one that cannot be read says no less."""
    try:
        return bool(json.loads(_path(system_identifier).read_text())["paused"])
    except FileNotFoundError:
        return False
    except (OSError, ValueError, LookupError, TypeError):
        return True


def remember(system_identifier: str, *, paused: bool) -> str:
    """Keep it for the next governor of this server. Returns why that is not possible, or ''."""
    try:
        path = _path(system_identifier)
        if paused:
            write_whole(path, json.dumps({"paused": True}).encode())
        else:
            path.unlink(missing_ok=True)
    except OSError as problem:
        return problem.strerror or str(problem)
    except SetupError as problem:
        return problem.message
    return ""


def _path(system_identifier: str) -> Path:
    return govern_dir() / f"{int(system_identifier)}.json"
