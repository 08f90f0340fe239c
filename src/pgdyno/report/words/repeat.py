"""Commands that repeat a run: from its run file, or from its spec without the run file."""

from __future__ import annotations

from pathlib import Path

from pgdyno.record import RunFile, RunInfo
from pgdyno.visible import shell_line


def repeat_lines(run: RunFile) -> list[str]:
    """Return the command that repeats the run from its run file, for any working directory."""
    return [command_of(run, str(run.path.absolute()))]


def story_command(path: Path) -> str:
    """Return the command that repeats a story from the run file of one of its chapters."""
    return shell_line(["pgdyno", "story", str(path.absolute())])


def spec_command(run: RunFile) -> str:
    """Return the command that repeats the run from its spec, saved under its name."""
    return command_of(run, f"{run.run.name}.toml")


def save_spec_text(info: RunInfo) -> str:
    """Return the sentence above the spec."""
    sentence = f"Without the run file, save this spec as {info.name}.toml:"
    if info.server.get("kind") == "existing":
        return f"Neither contains a password: put it into ~/.pgpass or PGPASSWORD. {sentence}"
    return sentence


def command_of(run: RunFile, source: str) -> str:
    """Return the command line that repeats the run from ``source``."""
    info = run.run
    words = ["pgdyno", info.command, source, *server_words(info)]
    if (info.spec.get("workload") or {}).get("initialize"):
        words.append("--initialize")
    return shell_line(map(str, [*words, *info.asked]))


def server_words(info: RunInfo) -> list[str]:
    """Return the words that name the server of a run; none for one that pgdyno starts."""
    if info.server.get("kind") != "existing":
        return []
    entrance, server = info.server.get("entrance_uri"), info.server.get("uri")
    words = [str(entrance or server or "CONNINFO")]
    return [*words, "--control", str(server)] if entrance else words
