"""Writing a spec to a run file and reading it back, so that a run file is accepted as a spec.

The run file has the text of every script, but no password and no connection string of an existing
server: the user gives the connection string again to repeat the run. A script with credentials is
read from its file again, and so is a setup with rows; what else had some must be given again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.record import RunFile, is_run_file, refusing_invalid
from pgdyno.redact import blank, is_blanked
from pgdyno.spec import Spec, read_spec
from pgdyno.spec.read import spec_over

_PATHS = (("server", "bindir"), ("load", "acks"))
"""Keys that are paths: recorded as absolute, since a run may be repeated in another directory."""
_WITH_PASSWORD = "the text of a file with a password in it is"


def recorded_fields(spec: Spec) -> dict[str, object]:
    """Return ``spec`` as JSON for the run file."""
    fields = spec.model_dump(
        mode="json", by_alias=True, exclude={"server": {"conninfo", "control"}}
    )
    for name, key in _PATHS:
        if fields[name][key] is not None:
            fields[name][key] = _absolute(fields[name][key])
    for table, file, text in _files(fields):
        if table[text] is not None and blank(table[text]) != table[text]:
            # Without its credentials it would be a different script: they are in the file.
            table[file] = _absolute(table[file])
    workload: Fields = fields["workload"]
    if workload["setup_sha256"] is not None:
        workload["setup"] = _absolute(workload["setup"])
    return fields


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def read_spec_or_run(
    path: Path,
    overrides: Fields | None = None,
    group_overrides: Fields | None = None,
    *,
    story: bool = False,
) -> tuple[Spec, str]:
    """Read the spec in ``path``, with overrides as for ``spec.read_spec``; return it and its text.

    From a run file, return the spec of its run and an empty text. With ``story``, return the spec
    of the story that the run was a chapter of. Raises UsageError.
    """
    if is_spec_of_run(path):
        with refusing_invalid(path):
            fields, spec_text = fields_of_run(path, story=story), ""
            spec = spec_over(fields, overrides, group_overrides, path=path)
    else:
        spec, spec_text = read_spec(path, overrides, group_overrides)
    _check_credentials(spec, path)
    return spec, spec_text


def _check_credentials(spec: Spec, path: Path) -> None:
    """Raise UsageError for a spec with what a credential hashes to in its place."""
    fields = spec.model_dump(mode="json", by_alias=True, exclude={"server": {"conninfo"}})
    hidden = [key for key, text in _texts(fields) if is_blanked(text)]
    if hidden:
        raise UsageError(
            f"{path} does not have the credentials of {', '.join(hidden[:3])}",
            code="credentials-not-recorded",
            hint="give the scripts, URLs and variables of the run again; with --credentials, a run"
            " file has them",
        )


def check_server_named(spec: Spec, path: Path) -> None:
    """Raise UsageError where ``path`` is of a run on an existing server and no server is given."""
    if spec.server.kind != "existing" or spec.server.conninfo or not is_spec_of_run(path):
        return
    with RunFile(path) as run:
        uri = run.run.server.get("entrance_uri") or run.run.server.get("uri")
    raise UsageError(
        f"{path} is of a run on an existing server, which must be named again",
        code="server-unnamed",
        hint="give the connection string after the run file"
        + (f"; without a password it was '{uri}'" if uri else ""),
    )


def require_load(run: RunFile) -> None:
    """Raise UsageError for the run file of a check, which has no spec."""
    if run.run.command == "check":
        raise UsageError(
            f"{run.path} is of a check, which had no load of its own to repeat",
            code="no-spec",
            hint="pgdyno check CONNINFO checks the server again",
        )


def fields_of_run(path: Path, *, story: bool = False) -> dict[str, object]:
    """Return the fields of the spec recorded in the run file ``path``; with ``story`` those of the
    whole story.

    Raises UsageError for a damaged file, and for a script that is neither in it nor on disk.
    """
    with RunFile(path) as run:
        require_load(run)
        fields = run.run.spec
        if story:
            fields = (run.run.result.get("chapter") or {}).get("of") or fields
    for table, file, text in _files(fields):
        if table.get(text) and is_blanked(table[text]) and Path(table[file]).exists():
            table[text] = None
        if table.get(text) is None and not Path(table[file]).expanduser().exists():
            why = "the rows of a dump are" if table.get("setup_sha256") else _WITH_PASSWORD
            raise UsageError(
                f"{path} does not have the text of {table[file]}, and that file no longer exists",
                code="text-not-recorded",
                hint=f"{why} not recorded; restore the file",
            )
    kept: Fields = _without_none(fields)
    # Dropping tables must be requested each time, with -i.
    kept.get("workload", {}).pop("initialize", None)
    return kept


def is_spec_of_run(path: Path) -> bool:
    """True if ``path`` is a run file, not a spec in TOML."""
    return path.suffix == ".db" or is_run_file(path)


def _files(fields: Fields) -> Iterator[tuple[Fields, str, str]]:
    """Yield the tables that name files, each with the keys of the file and of its text."""
    workload = fields.get("workload") or {}
    for table in (workload, *(fields.get("clients") or [])):
        script = table.get("script")
        for part in script if isinstance(script, list) else []:
            if part.get("file") is not None:
                yield part, "file", "text"
    if workload.get("setup") is not None:
        yield workload, "setup", "setup_text"


def _texts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield the key of each text in nested tables and lists, and the text."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, f"{where}[{number}]")


def _without_none(value: Any) -> Any:
    """Remove keys that are None, since TOML has no null."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return value
