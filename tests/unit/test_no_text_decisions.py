"""No decision reads English text: what a sentence says is a field, a kind or a code as well.

A decision by a sentence breaks when the sentence is improved. Texts of others, such as servers,
programs and files of users, may be read where they have no code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benches.sources import syntax_tree

PACKAGE = Path(__file__).parents[2] / "src" / "pgdyno"
ENGLISH = re.compile(r"[A-Za-z][,;:]? [A-Za-z]|^ [a-z]+ $|^[a-z]+: $")
"""Two words, or one with what joins it to another."""
METHODS = {
    *("startswith", "endswith", "removeprefix", "removesuffix"),
    *("partition", "rpartition", "split", "rsplit", "find", "rfind", "index", "rindex"),
}
TEXTS = {
    *("advice", "headline", "hint", "label", "message", "reason", "sentence", "steadiness"),
    *("title", "verdict", "why"),
}
"""Names of variables that hold text for users."""
POSTGRESQL = {
    *("autovacuum worker", "client backend", "parallel worker", "idle in transaction"),
    *("command line", "database user", "not paused", "in progress", "in production"),
    *("shut down", "shut down in recovery"),
}
"""Words of PostgreSQL's views, functions and pg_controldata."""
ALLOWED = {
    "SQL, scripts and recordings": (
        "rules/hot_rows.py",
        "imports/_plan_texts.py",
        "imports/_recording_model.py",
    ),
    "names of sessions and comments on databases, for pgdyno on other machines": (
        "server/connecting/exclusive_use.py",
        "server/connecting/marks.py",
    ),
    "logs of servers": (
        *("drill/_evidence.py", "drill/_recovery.py", "drill/_wal_loss.py"),
        *("drill/checks/unlogged.py", "drill/faults/during_recovery.py"),
        *("server/local/startup.py", "server/replication/patroni.py"),
    ),
    "messages of servers whose SQLSTATE says less": (
        *("facts/failures.py", "record/failures.py"),
        *("server/settings/_persistent_session.py", "server/settings/_running_sql.py"),
    ),
    "categories of settings": ("compare/_levelling.py",),
    "output of other programs, the front end's own included": (
        *("drill/power/_images.py", "front/_process.py", "server/connecting/facts.py"),
        *("server/local/_template.py", "server/local/controldata.py", "server/local/safefiles.py"),
        *("server/replication/_store.py", "workload/_archives.py"),
    ),
    "messages of pydantic": ("server/local/snapshots.py", "spec/read.py"),
}
"""By what they read, the modules that read text of others."""


class Texts:
    """The texts that expressions of a module stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._constants = dict(_constants(tree))
        self._imported = dict(_imported(tree))

    def value(self, node: ast.expr) -> tuple[ast.expr, Texts]:
        """The value of a constant, and the texts of its module."""
        if isinstance(node, ast.Name) and node.id in self._constants:
            return self._constants[node.id], self
        if isinstance(node, ast.Name) and node.id in self._imported:
            module, name = self._imported[node.id]
            if module.exists() and name in texts_in(module)._constants:
                return texts_in(module).value(ast.Name(name))
        return node, self

    def of(self, node: ast.expr) -> Iterator[str]:
        """The texts; a part of one that is not known is "x"."""
        value, texts = self.value(node)
        match value:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield "".join(p.value if isinstance(p, ast.Constant) else "x" for p in parts)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                for part in parts:
                    yield from texts.of(part)

    def is_english(self, node: ast.expr) -> bool:
        """True if a text is English, and neither a word of a closed list nor PostgreSQL's."""
        texts = {*self.of(node)} - vocabulary() - POSTGRESQL
        return any(ENGLISH.search(text) for text in texts)

    def has_english_keys(self, node: ast.expr) -> bool:
        """True for a dictionary in which one looks up English text."""
        value, texts = self.value(node)
        keys = value.keys if isinstance(value, ast.Dict) else []
        return any(texts.is_english(key) for key in keys if key is not None)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _imported(tree: ast.Module) -> Iterator[tuple[str, tuple[Path, str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pgdyno."):
            module = PACKAGE.joinpath(*str(node.module).split(".")[1:]).with_suffix(".py")
            yield from ((each.asname or each.name, (module, each.name)) for each in node.names)


@cache
def texts_in(path: Path) -> Texts:
    return Texts(syntax_tree(path))


@cache
def vocabulary() -> frozenset[str]:
    """Members of the package's literal types and enums."""
    members: list[ast.expr] = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(syntax_tree(path)):
            match node:
                case ast.Subscript(value=ast.Name(id="Literal"), slice=members_of_type):
                    members.append(members_of_type)
                case ast.ClassDef(bases=[ast.Name(id="StrEnum")], body=body):
                    members += [each.value for each in body if isinstance(each, ast.Assign)]
    plain = Texts(ast.Module([], []))
    return frozenset(text for each in members for text in plain.of(each))


def is_text(node: ast.expr) -> bool:
    """True for a variable that is named as a text for users."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.rpartition("_")[2] in TEXTS
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "strip")):
            return is_text(value)
        case ast.BoolOp(values=values):
            return any(map(is_text, values))
    return False


def decisions(tree: ast.Module, texts: Texts) -> Iterator[str]:
    """The expressions that decide by English text, or take it apart. Equality with a constant that
    has a name is none: it compares the things that the constant stands for."""

    def is_written(node: ast.expr) -> bool:
        return not isinstance(node, ast.Name) and texts.is_english(node)

    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="split"), args=[ast.Constant(value="\n")]):
                found = False
            case ast.Call(func=ast.Attribute(value=text, attr=method), args=args) if (
                method in METHODS
            ):
                found = any(map(is_text, (text, *args))) or any(map(texts.is_english, args))
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_]):
                found = is_text(key) and texts.has_english_keys(table)
            case ast.Subscript(value=table, slice=key):
                found = is_text(key) and texts.has_english_keys(table)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                found = is_text(right) or texts.is_english(left) or is_written(right)
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                found = is_written(left) or is_written(right)
            case _:
                found = False
        if found:
            yield ast.unparse(node)


def test_no_decision_reads_english_text() -> None:
    found = {
        str(path.relative_to(PACKAGE)): list(decisions(syntax_tree(path), texts_in(path)))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    allowed = {name for names in ALLOWED.values() for name in names}
    assert {name: texts for name, texts in found.items() if texts and name not in allowed} == {}
    assert [name for name in allowed if not found.get(name)] == [], "nothing is there to be allowed"


@pytest.mark.parametrize(
    "source",
    [
        'said = " "; f"{each.subject} is not" not in said',
        'event.label == f"no {probe}"',
        '_SKIPPED = "not checked: "\nsentence.removeprefix(_SKIPPED)',
        '"pg_monitor" in reason',
        '_TELLS = {"the number of cores is not known": ""}\n_TELLS.get(reason, allow)',
        'self.steadiness.startswith("too short")',
        '"PGDYNO_HOME" in (problem.hint or "")',
        "str(keep_dir) in problem.message",
        'event.label == f"{probe} away"',
        'NOTHING_DONE = "nothing was done"\nall(why.startswith(NOTHING_DONE) for why in voids)',
        '"" if sentence in summary.verdict else numbers.sentence(sentence)',
        'throughput_words(run, summary).partition(" tps ")[2]',
        'self.trial.title.removeprefix("without ")',
        'rest = whole.removeprefix(headline)\nrest.startswith("; ")',
        'each.sentence.partition(": ")[0]',
        'FAILED = "failed: "\nevent.label.startswith(FAILED)',
        "from pgdyno.server.connecting.marks import UNFINISHED\nUNFINISHED in comment",
    ],
)
def test_a_decision_by_text_is_found(source: str) -> None:
    tree = ast.parse(source)
    assert list(decisions(tree, Texts(tree)))


@pytest.mark.parametrize(
    "source",
    [
        'verdict.outcome == "not comparable"',
        'wait.backend_type == "client backend"',
        'OTHER = "other waits"\nname != OTHER',
        'line.startswith("MemAvailable:")',
        'name.removesuffix("_bytes")',
        'message.split("\\n")',
    ],
)
def test_a_kind_a_name_and_a_word_of_postgresql_are_none(source: str) -> None:
    tree = ast.parse(source)
    assert list(decisions(tree, Texts(tree))) == []
