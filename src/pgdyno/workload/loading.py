"""From a spec's ``workload`` to scripts: built-in mixes, and files in pgbench's language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.workload.model import Tables, WeightedScript, Workload

if TYPE_CHECKING:
    from pgdyno.spec.model import WorkloadSpec

_PGBENCH_TABLE = re.compile(r"\bpgbench_(?:accounts|branches|tellers|history)\b", re.IGNORECASE)
_SCRIPT_BYTES_MAX = 1 << 20
_MIXED = {"insert": 60, "read": 20, "update": 18, "invalid": 1, "max-id": 1}
"""Percent of the transactions of ``mixed``."""


def load_workload(spec: WorkloadSpec) -> Workload:
    """The workload that a spec asks for, its script files read.

    Raises UsageError for a file that is missing, is no text or has a mistake (with its line and
    column), and for a mix without weight.
    """
    if isinstance(spec.script, str):
        return _builtin(spec.script)
    parts = [(file.file, file.weight) for file in spec.script]
    if sum(weight for _, weight in parts) == 0:
        raise UsageError("at least one script needs a weight above 0", code="script-weight")
    names = _distinct_names([Path(file).stem for file, _ in parts])
    scripts = [
        WeightedScript(name, _read(file), file, weight)
        for name, (file, weight) in zip(names, parts, strict=True)
        if weight > 0
    ]
    for script in scripts:
        _check(script)
    uses_pgbench = any(_PGBENCH_TABLE.search(script.text) for script in scripts)
    name = "+".join(script.name for script in scripts)
    return Workload(name, scripts, Tables.PGBENCH if uses_pgbench else Tables.NONE)


def _builtin(name: str) -> Workload:
    if name == "mixed":
        here = Path(__file__).with_name("scripts")
        files = {part: here / f"mixed-{part}.sql" for part in _MIXED}
        scripts = [
            WeightedScript(part, files[part].read_text(encoding="utf-8"), files[part].name, weight)
            for part, weight in _MIXED.items()
        ]
        return Workload(name, scripts, Tables.MIXED)
    from pgdyno._engine import builtin_scripts

    known = builtin_scripts()
    if name not in known:
        raise UsageError(
            f'"{name}" is not a built-in workload',
            code="workload-unknown",
            hint=f"there are {', '.join(known)} and mixed; a file is given with -f",
        )
    script = WeightedScript(name, known[name], f"built-in {name}", 1)
    return Workload(name, [script], Tables.PGBENCH)


def _check(script: WeightedScript) -> None:
    """Have the engine read the script, so that mistakes show before any server is started."""
    from pgdyno._engine import ScriptError, check_script

    try:
        check_script(script.text, script.file)
    except ScriptError as error:
        raise UsageError(error.message, code="script-syntax", hint=error.hint) from None


def _distinct_names(stems: list[str]) -> list[str]:
    """File names without folder and ending; numbered where two are the same."""
    counts = {stem: stems.count(stem) for stem in stems}
    seen: dict[str, int] = {}
    names = []
    for stem in stems:
        seen[stem] = seen.get(stem, 0) + 1
        names.append(stem if counts[stem] == 1 else f"{stem}-{seen[stem]}")
    return names


def _read(file: str) -> str:
    try:
        content = Path(file).expanduser().read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise UsageError(
            f"the script {file} cannot be read: {error.strerror}", code="script-file"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"the script {file} is not UTF-8 text", code="script-file") from None
    if len(content) > _SCRIPT_BYTES_MAX:
        raise UsageError(f"the script {file} is longer than 1 MB", code="script-file")
    return text
