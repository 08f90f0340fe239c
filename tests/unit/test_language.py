"""The words that user-visible text avoids: help, messages, hints and documentation; and the words
that no docstring and no doc comment begins with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benches.sources import docstrings, syntax_tree

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "src" / "pgdyno"
_BANNED = {
    "folder": r"\bfolders?\b",
    "log-in": r"\blog-ins?\b",
    "but-for": r"\bbut for\b",
    "anew": r"\banew\b",
    "besides": r"\bbesides\b",
    "processor": r"\bprocessors?\b",
    "is to be": r"\b(?:is|are) to be\b",
    "told": r"\btold\b",
}


def _texts(module: Path) -> Iterator[str]:
    """String literals with a space in them, except docstrings, of a Python file."""
    tree = syntax_tree(module)
    bare = {id(node.value) for node, _ in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in bare:
            value = node.value
            if isinstance(value, str) and " " in value:
                yield value


_DECORATOR = re.compile(r"\w+\.(?:command|group)\(")


def _help(module: Path) -> Iterator[str]:
    """Docstrings of a module's commands, which click prints as their help."""
    for node in ast.walk(syntax_tree(module)):
        if isinstance(node, ast.FunctionDef) and any(
            _DECORATOR.match(ast.unparse(each)) for each in node.decorator_list
        ):
            yield ast.get_docstring(node) or ""


def _rooms() -> dict[str, list[Path]]:
    """Room of the package, or page → its files."""
    rooms: dict[str, list[Path]] = {}
    for module in sorted(_PACKAGE.rglob("*.py")):
        rooms.setdefault(module.relative_to(_PACKAGE).parts[0], []).append(module)
    for page in (*sorted(_ROOT.glob("*.md")), *sorted((_ROOT / "docs").rglob("*.md"))):
        rooms[str(page.relative_to(_ROOT))] = [page]
    return rooms


def _texts_of(file: Path) -> Iterator[str]:
    """What a user reads of it: of a page everything."""
    if file.suffix == ".md":
        yield file.read_text()
        return
    yield from _texts(file)
    if file.parent == _PACKAGE / "cli":
        yield from _help(file)


def _banned_in(texts: list[str]) -> set[str]:
    return {
        word
        for word, pattern in _BANNED.items()
        if any(re.search(pattern, text, re.IGNORECASE) for text in texts)
    }


_ROOMS = _rooms()


@pytest.mark.parametrize("room", _ROOMS)
def test_a_room_uses_no_banned_word(room: str) -> None:
    texts = [text for file in _ROOMS[room] for text in _texts_of(file)]
    assert not _banned_in(texts)


_OPENING = re.compile(r"(?:What|Who|How|Whether|Why|Where|When|That|If|One)\b")
"""A docstring begins with a verb, or a noun that says what the thing is."""


def _doc_comments(module: Path) -> Iterator[str]:
    """First lines of the doc comments of a Rust file."""
    before = None
    for line in module.read_text().splitlines():
        found = re.match(r"\s*//[/!] ?(.*)", line)
        if found and not before:
            yield found[1]
        before = found


def _badly_opened(openings: Iterator[str]) -> list[str]:
    return [text for text in openings if _OPENING.match(text)]


@pytest.mark.parametrize("top", ["src", "benches", "docs"])
def test_docstrings_begin_with_a_verb_or_a_noun(top: str) -> None:
    found = {
        each: _badly_opened(text for _, text in docstrings(syntax_tree(each)))
        for each in (_ROOT / top).rglob("*.py")
    }
    assert not {str(each): texts for each, texts in found.items() if texts}


def test_doc_comments_begin_with_a_verb_or_a_noun() -> None:
    modules = [each for top in ("crates", "benches") for each in (_ROOT / top).rglob("*.rs")]
    found = {each: _badly_opened(_doc_comments(each)) for each in modules}
    assert not {str(each): texts for each, texts in found.items() if texts}


def test_a_bad_opening_is_found() -> None:
    assert _badly_opened(iter(["What that does.", "Whatever", "A thing"])) == ["What that does."]


def test_a_banned_word_is_found() -> None:
    assert _banned_in(["a Folder\nthat is to be made"]) == {"folder", "is to be"}
