"""Load the scripts of a spec: built-in ones, and files in pgbench's language; and copy the texts of
the files that a spec names into the spec, for the run file.

A run can then be repeated from its run file without these files. Of a setup with rows, which are
the user's data, the run file has the digest instead.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdyno.errors import UsageError
from pgdyno.redact import blank
from pgdyno.spec import ScriptPart, Spec
from pgdyno.workload._files import read_lines, read_text, with_csv
from pgdyno.workload._found import PGBENCH_COLUMNS
from pgdyno.workload._model import Tables, WeightedScript, Workload
from pgdyno.workload._own import OWN
from pgdyno.workload._own_tables import names_of
from pgdyno.workload._script_errors import check_copy_data, check_script_text
from pgdyno.workload.builtin import TPCC_PARTS, builtin_texts
from pgdyno.workload.update_last import late_update

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pgdyno.spec import ScriptPart, Spec
    from pgdyno.spec.workload import WorkloadSpec


_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_RECOGNIZED = {kind: own for kind, own in OWN.items() if kind is not Tables.INGEST}
"""A script on the table of ``ingest`` is one of the user's: its text does not have all keys."""
_TABLES = {
    Tables.PGBENCH: names_of(*PGBENCH_COLUMNS),
    **{kind: own.names for kind, own in _RECOGNIZED.items()},
}
_IN_WORDS = {
    Tables.PGBENCH: "pgbench's tables",
    **{kind: own.name for kind, own in _RECOGNIZED.items()},
}
_SCRIPT_BYTES_MAX = 16 << 20
_MIXED = {"insert": 60, "read": 20, "update": 18, "invalid": 1, "max-id": 1}
_MIXES: Mapping[str, tuple[str, Mapping[str, int], Tables]] = {
    "mixed": ("mixed", _MIXED, Tables.MIXED),
    "tpcc-like": ("tpcc", TPCC_PARTS, Tables.TPCC),
    "tpcc-functions": ("tpcc-functions", TPCC_PARTS, Tables.TPCC),
}
"""Workloads of several scripts: the beginning of these scripts' names, the rest of each with its
percent of the transactions, and their tables."""
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
            loaded[key] = _with_late_updates(
                load_mix(mix, spec.workload), spec.workload.update_last
            )
        by_group[group.name] = _IDLE if group.idle else loaded[key]
    return by_group


def _with_late_updates(workload: Workload, table: str | None) -> Workload:
    """Return the workload with the update of ``table`` moved to the end of its transactions."""
    if table is None:
        return workload
    late = [late_update(script.text, table) for script in workload.scripts]
    scripts = [
        replace(script, text=moved.text) if moved else script
        for script, moved in zip(workload.scripts, late, strict=True)
    ]
    return replace(workload, scripts=scripts)


def load_mix(mix: str | list[ScriptPart], wanted: WorkloadSpec | None = None) -> Workload:
    """Return the workload of one mix; ``wanted`` decides the script of ingest, and its setup may
    create the tables. Raises as :func:`load_workloads` does."""
    if mix == "ingest":
        return _ingest(wanted)
    if isinstance(mix, str):
        return _builtin(mix)
    names = _distinct_names([_name_of(part) for part in mix])
    scripts = [
        _script_of(name, part) for name, part in zip(names, mix, strict=True) if part.weight > 0
    ]
    name = "+".join(script.name for script in scripts)
    setup = None if wanted is None else wanted.setup_text
    return Workload(name, scripts, _tables_of(scripts, setup))


def _name_of(part: ScriptPart) -> str:
    if part.request is not None:
        return f"GET {blank(part.request)}"
    return Path(part.file).stem if part.file else str(part.builtin)


def _tables_of(scripts: list[WeightedScript], setup: str | None = None) -> Tables:
    """Return the tables that the scripts use, unless the ``setup`` has them. Raises UsageError for
    two kinds in one mix."""
    bare = [_COMMENT.sub(" ", script.text) for script in scripts]
    used = [
        kind
        for kind, pattern in _TABLES.items()
        if any(map(pattern.search, bare)) and not (setup and pattern.search(setup))
    ]
    if len(used) > 1:
        first, second = (_IN_WORDS[kind] for kind in used[:2])
        raise UsageError(
            f"scripts on {first} and scripts on those of {second} cannot be in one mix",
            code="two-kinds-of-tables",
            hint="give each a client group of its own, in a spec",
        )
    return used[0] if used else Tables.NONE


def _script_of(name: str, part: ScriptPart) -> WeightedScript:
    if part.request is not None:
        text = f"\\get {part.request}\n\\follow\n"
        return WeightedScript(name, text, name, part.weight)
    if part.file is None:
        assert part.builtin is not None
        text, file = builtin_texts()[part.builtin], f"built-in {part.builtin}"
        return WeightedScript(name, text, file, part.weight)
    script = WeightedScript(name, script_text(part), part.file, part.weight, own=True)
    _check(script)
    return script


def script_text(part: ScriptPart) -> str:
    r"""Return the text of a script file: that in the spec if there is one, else the file's content;
    with the lines of the files that it names with ``\csv``.

    Raises UsageError if a file cannot be read.
    """
    assert part.file is not None
    text = part.text
    if text is None:
        text = read_text(part.file, "script", bytes_max=_SCRIPT_BYTES_MAX)
    directory = Path(part.file).parent
    return with_csv(text, lambda file: read_lines(str(directory / file)))


def unset_variables(workload: Workload, defined: Collection[str]) -> dict[str, list[str]]:
    """Return, by script file, variables that are used but set neither there nor in ``defined``."""
    from pgdyno._engine import check_script

    missing = {}
    for script in workload.scripts:
        used = check_script(script.text, script.file)["variables_used"]
        if unset := sorted(set(used) - set(defined) - ENGINE_VARIABLES):
            missing[script.file] = unset
    return missing


def _ingest(wanted: WorkloadSpec | None) -> Workload:
    from pgdyno.spec.workload import WorkloadSpec
    from pgdyno.workload._builtin_tables import ingest_script

    text = ingest_script(WorkloadSpec.default() if wanted is None else wanted)
    return Workload("ingest", [WeightedScript("ingest", text, "built-in ingest", 1)], Tables.INGEST)


def _builtin(name: str) -> Workload:
    if name in _MIXES:
        beginning, weights, tables = _MIXES[name]
        files = {part: f"{beginning}-{part}" for part in weights}
        scripts = [
            WeightedScript(part, builtin_texts()[file], f"{file}.sql", weights[part])
            for part, file in files.items()
        ]
        return Workload(name, scripts, tables)
    script = WeightedScript(name, builtin_texts()[name], f"built-in {name}", 1)
    return Workload(name, [script], _tables_of([script]))


def _check(script: WeightedScript) -> None:
    """Parse the script, so that errors are reported before a server is started."""
    statements = check_script_text(script.text, script.file)
    check_copy_data(script.text, statements, script.file)


def _distinct_names(stems: list[str]) -> list[str]:
    """Return the file names without directory and extension, numbered if not distinct."""
    counts = {stem: stems.count(stem) for stem in stems}
    seen: dict[str, int] = {}
    names = []
    for stem in stems:
        seen[stem] = seen.get(stem, 0) + 1
        names.append(stem if counts[stem] == 1 else f"{stem}-{seen[stem]}")
    return names


def with_texts(spec: Spec) -> Spec:
    """Return ``spec`` with the text of every script file and of the setup.

    Raises UsageError for a file that cannot be read, and for a setup with rows that has changed.
    """
    workload = spec.workload
    filled: dict[str, object] = {"script": _mix_with_texts(workload.script)}
    if workload.setup is not None:
        from pgdyno.workload.setup import Setup

        filled |= Setup.of(workload).fields
    groups = [
        group.model_copy(update={"script": _mix_with_texts(group.script)}) for group in spec.clients
    ]
    return spec.model_copy(
        update={"workload": workload.model_copy(update=filled), "clients": groups}
    )


def _mix_with_texts(mix: str | list[ScriptPart] | None) -> str | list[ScriptPart] | None:
    if mix is None or isinstance(mix, str):
        return mix
    return [
        part if part.file is None else part.model_copy(update={"text": script_text(part)})
        for part in mix
    ]
