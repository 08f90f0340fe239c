"""Load the scripts of a spec: built-in ones, and files in pgbench's language."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.workload._model import Tables, WeightedScript, Workload
from pgdyno.workload._textfile import read_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from pgdyno.spec import ScriptPart, Spec

# Not a table of another schema. Comments are removed before.
_PGBENCH_TABLE = re.compile(
    r"""(?<![\w.:'"])(?:public\.)?"?pgbench_(?:accounts|branches|tellers|history)\b""",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SCRIPT_BYTES_MAX = 16 << 20
_MIXED = {"insert": 60, "read": 20, "update": 18, "invalid": 1, "max-id": 1}
"""Percent of the transactions of ``mixed``."""
ENGINE_VARIABLES = {"scale", "client_id", "random_seed", "default_seed", "txn"}
"""Variables that the engine sets for each client."""


_IDLE = Workload("idle", [WeightedScript("idle", "select 1;", "idle", 1)], Tables.NONE)
"""Placeholder for idle clients, which execute nothing."""


def load_workloads(spec: Spec) -> dict[str, Workload]:
    """Return the workload of each client group; each script file is read once.

    Raises UsageError for a file that is missing, is not text or has an error (with line and
    column).
    """
    loaded: dict[str, Workload] = {}
    by_group = {}
    for group in spec.clients:
        mix = spec.mix_of(group)
        key = repr(mix)
        if not group.idle and key not in loaded:
            loaded[key] = load_mix(mix)
        by_group[group.name] = _IDLE if group.idle else loaded[key]
    return by_group


def load_mix(mix: str | list[ScriptPart]) -> Workload:
    """Return the workload of one mix. Raises as :func:`load_workloads` does."""
    if isinstance(mix, str):
        return _builtin(mix)
    names = _distinct_names([Path(part.file).stem if part.file else str(part.builtin)
                             for part in mix])  # fmt: skip
    scripts = [
        _script_of(name, part) for name, part in zip(names, mix, strict=True) if part.weight > 0
    ]
    uses_pgbench = any(
        not script.own or _PGBENCH_TABLE.search(_COMMENT.sub(" ", script.text))
        for script in scripts
    )
    name = "+".join(script.name for script in scripts)
    return Workload(name, scripts, Tables.PGBENCH if uses_pgbench else Tables.NONE)


def _script_of(name: str, part: ScriptPart) -> WeightedScript:
    if part.file is None:
        from pgdyno._engine import builtin_scripts

        assert part.builtin is not None
        text, file = builtin_scripts()[part.builtin], f"built-in {part.builtin}"
        return WeightedScript(name, text, file, part.weight)
    script = WeightedScript(name, script_text(part), part.file, part.weight, own=True)
    _check(script)
    return script


def script_text(part: ScriptPart) -> str:
    """Return the text of a script file: that in the spec if there is one, else the file's content.

    Raises UsageError if the file cannot be read.
    """
    assert part.file is not None
    if part.text is not None:
        return part.text
    return read_text(part.file, "script", bytes_max=_SCRIPT_BYTES_MAX)


def unset_variables(workload: Workload, defined: Collection[str]) -> dict[str, list[str]]:
    """Return, by script file, variables that are used but set neither there nor in ``defined``."""
    from pgdyno._engine import check_script

    missing = {}
    for script in workload.scripts:
        used = check_script(script.text, script.file)["variables_used"]
        if unset := sorted(set(used) - set(defined) - ENGINE_VARIABLES):
            missing[script.file] = unset
    return missing


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

    script = WeightedScript(name, builtin_scripts()[name], f"built-in {name}", 1)
    return Workload(name, [script], Tables.PGBENCH)


def _check(script: WeightedScript) -> None:
    """Parse the script, so that errors are reported before a server is started."""
    from pgdyno._engine import ScriptError, check_script

    try:
        check_script(script.text, script.file)
    except ScriptError as error:
        raise UsageError(error.message, code="script-syntax", hint=error.hint) from None


def _distinct_names(stems: list[str]) -> list[str]:
    """Return the file names without directory and extension, numbered if not distinct."""
    counts = {stem: stems.count(stem) for stem in stems}
    seen: dict[str, int] = {}
    names = []
    for stem in stems:
        seen[stem] = seen.get(stem, 0) + 1
        names.append(stem if counts[stem] == 1 else f"{stem}-{seen[stem]}")
    return names
