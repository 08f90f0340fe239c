"""The table of errors, read from the code: every place where an error of the tree is made.

A code, a message or a hint that the place does not hold itself is looked for where it comes from:
an assignment before it, a parameter's default and what callers pass, a table that a loop goes
through. What varies stands in braces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "pgdyno"
VARIES = "{…}"
STATUSES = {
    "UsageError": "what was typed, or written in a spec or script, cannot be used",
    "SetupError": "something that the run needs is missing or refuses",
    "RunError": "the run failed; what was recorded is kept",
    "ThresholdError": "a threshold was not held",
    "TrustError": "the measurement cannot be trusted",
}
"""Classes of the tree, by name, with what they stand for."""


@dataclass(frozen=True, order=True)
class Row:
    """An error: code, class, message and hint ('' for none)."""

    code: str
    kind: str
    message: str
    hint: str


@dataclass
class Found:
    """All errors of the package, and the places whose code could not be made out."""

    rows: set[Row] = field(default_factory=set)
    unclear: list[str] = field(default_factory=list)


@cache
def found() -> Found:
    """Errors that the package raises on purpose."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    kinds = _kinds(trees.values())
    result = Found()
    for path, tree in trees.items():
        for within, call in _calls(tree):
            kind = kinds.get(_name_of(call.func))
            code = next((word.value for word in call.keywords if word.arg == "code"), None)
            if kind is None or code is None:
                continue
            if isinstance(code, ast.Attribute | ast.Subscript):
                continue  # an error that is told once more, or the engine's
            rows = list(_rows(kind, call, code, within, tree))
            result.rows.update(rows)
            if not rows:
                result.unclear.append(f"{path.relative_to(PACKAGE)}:{call.lineno}")
    return result


def engine_codes() -> list[str]:
    """Codes of the load engine, as its stub lists them."""
    text = ast.get_docstring(next(
        node for node in ast.walk(ast.parse((PACKAGE / "_engine.pyi").read_text()))
        if isinstance(node, ast.ClassDef) and node.name == "EngineError"
    )) or ""  # fmt: skip
    return sorted(set(re.findall(r"``([a-z]+(?:-[a-z]+)+)``", text)))


def page(statuses: dict[str, int]) -> str:
    """The page of the reference; ``statuses`` are the exit statuses of the classes."""
    parts = [
        "# Errors\n\nMade from the code by `make docs`: every error that pgdyno raises on purpose,"
        " with its code, its message and its hint. What varies stands in braces.\n\n"
        "| exit status | |\n|---|---|\n| 0 | good |\n",
    ]
    by_status: dict[int, list[str]] = {}
    for kind, meaning in STATUSES.items():
        by_status.setdefault(statuses[kind], []).append(meaning)
    parts += [f"| {status} | {'; '.join(said)} |\n" for status, said in by_status.items()]
    parts.append("| 130, 143, 129 | interrupted by SIGINT, SIGTERM, SIGHUP |\n\n")
    parts.append(
        "What is wrong with words and options of the command line itself ends with 1 and a hint at"
        " the command's help. An internal error is a bug in pgdyno, and ends with 2.\n"
    )
    parts.append(
        "\nWith `--format json` a command that comes to no result prints one object on stdout"
        " instead, with `verdict` null and the error in the words of stderr: code, message, hint,"
        " exit status. If a run was begun, its run file, incidents, failures, slices, trials and"
        " cuts until then stand there too, and `pgdyno show --format json` of that file prints the"
        " same. [result-unfinished.schema.json](result-unfinished.schema.json) describes it. A"
        " result that fails a threshold (3) or cannot be trusted (4) is a result, and printed as"
        " such.\n"
    )
    rows = sorted(found().rows)
    for status in by_status:
        chosen = [row for row in rows if statuses[row.kind] == status]
        parts.append(f"\n## Exit status {status}\n\n| code | message | hint |\n|---|---|---|\n")
        parts += [f"| {row.code} | {_cell(row.message)} | {_cell(row.hint)} |\n" for row in chosen]
    parts.append(
        "\n## Of the load engine\n\nRaised with 1 before the load begins and with 2 during it; the"
        " message is the engine's, or where a server refused, the server's.\n\n"
    )
    parts.append(", ".join(engine_codes()) + "\n")
    return "".join(parts)


def _kinds(trees: Iterable[ast.Module]) -> dict[str, str]:
    """Class name → the class of the tree that it is, or is derived from."""
    kinds = {name: name for name in STATUSES}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = [kinds[base.id] for base in node.bases
                         if isinstance(base, ast.Name) and base.id in kinds]  # fmt: skip
                kinds.update((node.name, base) for base in bases)
    return kinds


def _calls(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
    """Each call, with the innermost function that it is in."""

    def walk(node: ast.AST, within: ast.FunctionDef | None) -> Iterator[tuple[object, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield within, child
            yield from walk(child, child if isinstance(child, ast.FunctionDef) else within)

    yield from walk(tree, None)  # type: ignore[misc]


def _rows(
    kind: str, call: ast.Call, code: ast.expr, within: ast.FunctionDef | None, tree: ast.Module
) -> Iterator[Row]:
    """The errors that one call makes, several where its code comes out of a table."""
    message = call.args[0] if call.args else None
    hint = next((word.value for word in call.keywords if word.arg == "hint"), None)
    table = _table_of(code, within, tree)
    if table is not None:
        names, entries = table
        for entry in entries:
            values = dict(zip(names, entry.elts, strict=True))
            parts = [values.get(_root(each)) for each in (code, message, hint)]
            yield Row(_said(parts[0]), kind, _said(parts[1]), _said(parts[2]))
        return
    for each in _values(code, within, tree):
        yield Row(_said(each), kind, _one(message, within, tree), _one(hint, within, tree))


def _table_of(
    code: ast.expr, within: ast.FunctionDef | None, tree: ast.Module
) -> tuple[list[str], list[ast.Tuple]] | None:
    """The names of the columns and the entries, where ``code`` is bound by a loop over a table."""
    for node in ast.walk(within) if within else ():
        if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple):
            names = [each.id for each in node.target.elts if isinstance(each, ast.Name)]
            table = _assigned(_name_of(node.iter), tree)
            if _name_of(code) in names and isinstance(table, ast.Tuple | ast.List):
                return names, [each for each in table.elts if isinstance(each, ast.Tuple)]
    return None


def _values(value: ast.expr, within: ast.FunctionDef | None, tree: ast.Module) -> list[ast.expr]:
    """Texts that an expression may stand for."""
    if isinstance(value, ast.IfExp):
        return [*_values(value.body, within, tree), *_values(value.orelse, within, tree)]
    if not isinstance(value, ast.Name) or within is None:
        return [value] if isinstance(value, ast.Constant | ast.JoinedStr) else []
    if (local := _assigned(value.id, within)) is not None:
        return _values(local, None, tree)
    return [each for each in _passed(value.id, within, tree) if isinstance(each, ast.Constant)] or [
        each for each in [_assigned(value.id, tree)] if isinstance(each, ast.Constant)
    ]


def _passed(name: str, function: ast.FunctionDef, tree: ast.Module) -> Iterator[ast.expr]:
    """A parameter's default, and what the module's calls of the function give for it."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    with_default = positional[len(positional) - len(spec.defaults) :]
    yield from (d for a, d in zip(with_default, spec.defaults, strict=True) if a.arg == name)
    yield from (d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
                if a.arg == name and d is not None)  # fmt: skip
    names = [each.arg for each in positional if each.arg not in ("self", "cls")]
    for _, call in _calls(tree):
        if _name_of(call.func) == function.name:
            yield from (word.value for word in call.keywords if word.arg == name)
            if name in names and names.index(name) < len(call.args):
                yield call.args[names.index(name)]


def _assigned(name: str, scope: ast.AST) -> ast.expr | None:
    """Values assigned to a name in a function or a module."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and any(_name_of(each) == name for each in node.targets):
            return node.value
    return None


def _one(value: ast.expr | None, within: ast.FunctionDef | None, tree: ast.Module) -> str:
    """A message or hint as text: alternatives beside each other."""
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return ""
    texts = [_said(each) for each in _values(value, within, tree)]
    return " / ".join(dict.fromkeys(text for text in texts if text)) or VARIES


def _said(value: ast.expr | None) -> str:
    """A text, with what varies in braces."""
    if isinstance(value, ast.Constant):
        return "" if value.value is None else str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"{{{_root_name(part)}}}"
            for part in value.values
        )
    return VARIES


def _root_name(part: ast.expr) -> str:
    """A word for what an f-string fills in."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    while isinstance(value, ast.Call) and value.args:
        value = value.args[0]
    return _name_of(value) or "…"


def _root(value: ast.expr | None) -> str:
    """The name that ``name`` or ``name.format_map(…)`` begins with."""
    while isinstance(value, ast.Call | ast.Attribute):
        value = value.func if isinstance(value, ast.Call) else value.value
    return _name_of(value)


def _name_of(value: ast.AST | None) -> str:
    if isinstance(value, ast.Name):
        return value.id
    return value.attr if isinstance(value, ast.Attribute) else ""


def _cell(text: str) -> str:
    """A text in a table of Markdown."""
    text = "it depends" if text == VARIES else text
    return re.sub(r"([|<>\\*_`])", r"\\\1", " ".join(text.split()))
