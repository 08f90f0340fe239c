"""The spec of a run as its run file has it, and back: so that a run file is accepted as a spec.

The run file has the text of every script, but no password and, of a server that was there, no
connection string: where it leads is said again by whoever runs it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pgdyno.errors import UsageError
from pgdyno.record import RunFile, is_run_file, making_sense_of
from pgdyno.redact import blank
from pgdyno.spec import Spec, read_spec
from pgdyno.spec.read import spec_over

_PATHS = (("server", "bindir"), ("load", "acks"))
"""Keys that are paths, which a run in another directory would look for elsewhere."""


def recorded_fields(spec: Spec) -> dict[str, Any]:
    """``spec`` as JSON for the run file."""
    fields = spec.model_dump(
        mode="json", by_alias=True, exclude={"server": {"conninfo", "control"}}
    )
    for name, key in _PATHS:
        if fields[name][key] is not None:
            fields[name][key] = str(Path(fields[name][key]).expanduser().absolute())
    for table, file, text in _files(fields):
        if table[text] is not None and blank(table[text]) != table[text]:
            table[text] = None  # without its password it would be another script
            table[file] = str(Path(table[file]).expanduser().absolute())
    return fields


def read_spec_or_run(
    path: Path,
    overrides: Mapping[str, Any] | None = None,
    group_overrides: Mapping[str, Any] | None = None,
    *,
    story: bool = False,
) -> tuple[Spec, str]:
    """The spec that ``path`` has, with overrides as for ``spec.read_spec``, and its text.

    A run file has the spec of its run, and no text. With ``story`` it is the spec of the story that
    the run was a chapter of. Raises UsageError.
    """
    if not is_spec_of_run(path):
        return read_spec(path, overrides, group_overrides)
    with making_sense_of(path):
        fields = fields_of_run(path, story=story)
        return spec_over(fields, overrides, group_overrides, path=path), ""


def check_server_named(spec: Spec, path: Path) -> None:
    """Raise UsageError where ``path`` is of a run on a server that nobody has named this time."""
    if spec.server.kind == "embedded" or spec.server.conninfo or not is_spec_of_run(path):
        return
    with RunFile(path) as run:
        uri = run.run.server.get("entrance_uri") or run.run.server.get("uri")
    raise UsageError(
        f"{path} is of a run on a server that was there, and says nothing of how to connect",
        code="server-unnamed",
        hint="give the connection string after the run file" + (f"; it was '{uri}'" if uri else ""),
    )


def fields_of_run(path: Path, *, story: bool = False) -> dict[str, Any]:
    """The fields of the spec that the run file ``path`` was recorded with; with ``story`` those of
    the whole story.

    Raises UsageError for a damaged file, and for a script that is neither in it nor anywhere else.
    """
    with RunFile(path) as run:
        fields = run.run.spec
        if story:
            fields = (run.run.result.get("chapter") or {}).get("of") or fields
    for table, file, text in _files(fields):
        if table.get(text) is None and not Path(table[file]).expanduser().exists():
            raise UsageError(
                f"{path} does not have the text of {table[file]}, and that file is gone",
                code="text-not-recorded",
                hint="the text of a file with a password in it is not recorded; put the file back",
            )
    kept: dict[str, Any] = _without_none(fields)
    # To drop tables is asked for anew each time, with -i.
    kept.get("workload", {}).pop("initialize", None)
    return kept


def is_spec_of_run(path: Path) -> bool:
    """Whether ``path`` is meant as a run file, and not as a spec in TOML."""
    return path.suffix == ".db" or is_run_file(path)


def _files(fields: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Where files are named: a table, its key of the file and its key of the file's text."""
    workload = fields.get("workload") or {}
    for table in (workload, *(fields.get("clients") or [])):
        script = table.get("script")
        for part in script if isinstance(script, list) else []:
            if part.get("file") is not None:
                yield part, "file", "text"
    if workload.get("setup") is not None:
        yield workload, "setup", "setup_text"


def _without_none(value: Any) -> Any:
    """TOML has no null: a key that is not set is not there."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
