"""Files that are no specs, as specs: JMeter test plans (.jmx), recordings of browsers (.har) and
captures of a server's load (.pgdyno) are read, and the spec is made of fields for a run, or written
as files to edit."""

from __future__ import annotations

from pathlib import Path

from pgdyno.clone import SUFFIX, clone_of, read_capture
from pgdyno.errors import SetupError, UsageError
from pgdyno.files import read_at_most, write_whole
from pgdyno.imports._model import Choices, Imported

PLAN, RECORDING = ".jmx", ".har"
FOREIGN_SUFFIXES = (PLAN, RECORDING, SUFFIX)
_BYTES_MAX = {PLAN: 16 << 20, RECORDING: 128 << 20}


def is_foreign(path: Path) -> bool:
    """True if a file of this name is of another tool."""
    return path.suffix.lower() in FOREIGN_SUFFIXES


def read_foreign(path: Path, choices: Choices) -> Imported:
    """Return the spec of a file of another tool, its scripts checked.

    Raises UsageError with the place of what is wrong, or not supported.
    """
    kind = path.suffix.lower()
    if kind not in FOREIGN_SUFFIXES:
        raise UsageError(
            f"{path} is neither a JMeter test plan, nor a HAR file, nor a capture",
            code="import-kind",
            hint="their names end with .jmx, .har and .pgdyno",
        )
    if kind == SUFFIX:
        imported = _of_capture(path, choices)
    elif kind == PLAN:
        from pgdyno.imports._plan import import_plan

        imported = import_plan(_content(path, _BYTES_MAX[kind]), path, choices)
    else:
        from pgdyno.imports._recording import import_recording

        imported = import_recording(_content(path, _BYTES_MAX[kind]), path, choices)
    _check_scripts(imported, path)
    return imported


def _of_capture(path: Path, choices: Choices) -> Imported:
    capture = read_capture(path)
    clone = clone_of(capture, path.stem, choices.scale, one_group=choices.one_group)
    return Imported(
        name=path.stem,
        fields=clone.fields,
        scripts=clone.scripts,
        tables={},
        missing=[],
        notes=[*capture.gaps],
        setups={clone.setup: clone.setup_text},
        settings=capture.settings,
    )


def _content(path: Path, bytes_max: int) -> bytes:
    try:
        content = read_at_most(path.expanduser(), bytes_max)
    except OSError as problem:
        raise UsageError(
            f"{path} cannot be read: {problem.strerror}", code="import-unreadable"
        ) from None
    if len(content) > bytes_max:
        raise UsageError(f"{path} is longer than {bytes_max >> 20} MB", code="import-too-long")
    return content


def _check_scripts(imported: Imported, path: Path) -> None:
    """Parse the scripts: a regular expression, say, may be one that only Java has."""
    from pgdyno._engine import ScriptError, check_script
    from pgdyno.workload import with_csv

    def lines_of(name: str) -> str:
        if name not in imported.tables:
            raise UsageError(
                f"{path}: a statement would have a script read the file {name}",
                code="import-script",
                hint="it was altered: statements have no commands of scripts",
            )
        return imported.tables[name]

    for file, text in imported.scripts.items():
        try:
            check_script(with_csv(text, lines_of), file)
        except ScriptError as error:
            raise UsageError(
                f"{path}: in the script that is made of it, {error.message}",
                code="import-script",
                hint=error.hint,
            ) from None


def fields_with_texts(imported: Imported) -> dict[str, object]:
    """Return the fields of the spec, with the texts of its scripts in it."""
    from pgdyno.workload import with_csv

    clients = []
    for group in imported.fields["clients"]:
        parts = [
            {**part, "text": with_csv(imported.scripts[part["file"]], imported.tables.__getitem__)}
            for part in group["script"]
        ]
        clients.append({**group, "script": parts})
    fields = {**imported.fields, "clients": clients}
    for text in imported.setups.values():
        fields["workload"] = {**fields["workload"], "setup_text": text}
    return fields


def write_import(imported: Imported, directory: Path, source: Path) -> list[Path]:
    """Write spec, scripts and files of lines into ``directory``; return their paths, the spec
    first.

    Raises UsageError if one of them exists, SetupError if they cannot be written.
    """
    import tomli_w

    spec = f"# From {source.name}\n\n" + tomli_w.dumps(imported.fields)
    texts = {
        f"{imported.name}.toml": spec,
        **imported.scripts,
        **imported.tables,
        **imported.setups,
    }
    paths = {directory / name: text for name, text in texts.items()}
    for path in paths:
        if path.exists() or path.is_symlink():
            raise UsageError(
                f"{path}: a file with this name already exists",
                code="import-exists",
                hint="nothing is overwritten; choose another directory with -o",
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            write_whole(path, text.encode())
    except OSError as problem:
        raise SetupError(f"{directory}: {problem.strerror}", code="import-unwritable") from None
    return list(paths)
