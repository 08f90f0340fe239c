"""The spec of an import: as fields for a run, or as files to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgdyno.errors import SetupError, UsageError
from pgdyno.files import write_whole
from pgdyno.imports._model import Imported


def fields_with_texts(imported: Imported) -> dict[str, Any]:
    """Return the fields of the spec, with the texts of its scripts in it."""
    from pgdyno.workload import with_csv

    clients = []
    for group in imported.fields["clients"]:
        parts = [
            {**part, "text": with_csv(imported.scripts[part["file"]], imported.tables.__getitem__)}
            for part in group["script"]
        ]
        clients.append({**group, "script": parts})
    return {**imported.fields, "clients": clients}


def write_import(imported: Imported, directory: Path, source: Path) -> list[Path]:
    """Write spec, scripts and files of lines into ``directory``; return their paths, the spec
    first.

    Raises UsageError if one of them exists, SetupError if they cannot be written.
    """
    import tomli_w

    spec = f"# From {source.name}\n\n" + tomli_w.dumps(imported.fields)
    texts = {f"{imported.name}.toml": spec, **imported.scripts, **imported.tables}
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
