"""What to type to have a run again: from its run file, or from its spec without that."""

from __future__ import annotations

import shlex
from pathlib import Path

from pgdyno.record import RunInfo


def repeat_lines(info: RunInfo, path: Path) -> list[str]:
    """The command that repeats the run from its run file, wherever it is typed."""
    return [command_of(info, str(path.absolute()))]


def story_command(path: Path) -> str:
    """The command that tells a story again from the run file of one of its chapters."""
    return shlex.join(["pgdyno", "story", str(path.absolute())])


def spec_command(info: RunInfo) -> str:
    """The command that repeats the run from its spec, saved under its name."""
    return command_of(info, f"{info.name}.toml")


def repeat_says(info: RunInfo) -> str:
    """What stands above the spec."""
    said = f"Without the run file, save this spec as {info.name}.toml:"
    if info.server.get("kind") == "existing":
        return f"A password is in neither: put it into ~/.pgpass or PGPASSWORD. {said}"
    return said


def command_of(info: RunInfo, source: str) -> str:
    """The command line that does to ``source`` what was done then."""
    words = ["pgdyno", info.command, source]
    if info.server.get("kind") == "existing":
        words.append(str(info.server.get("entrance_uri") or info.server.get("uri") or "CONNINFO"))
        if info.server.get("entrance_uri"):
            words += ["--control", str(info.server.get("uri"))]
    if (info.spec.get("workload") or {}).get("initialize"):
        words.append("--initialize")
    return shlex.join(map(str, [*words, *(info.asked or _asked_by(info))]))


def _asked_by(info: RunInfo) -> list[str]:
    """What a drill of an older file was asked, which does not say it by itself."""
    drilled = info.result
    if info.command != "drill" or "fault" not in drilled:
        return []
    words = ["--fault", drilled["fault"], "--cuts", str(len(drilled.get("cuts") or []))]
    return [*words, "--seed", str(drilled.get("seed", 1))]
