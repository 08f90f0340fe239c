"""XML of a file as a tree of elements with their lines, without document types or entities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from pgdyno.errors import UsageError

_DEPTH_MAX = 200


@dataclass
class Node:
    """An element."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Node] = field(default_factory=list)
    text: str = ""
    """All of its own text."""

    def named(self, name: str) -> Node | None:
        """Return its first child with this attribute ``name``."""
        return next((each for each in self.children if each.attributes.get("name") == name), None)

    def walk(self) -> Iterator[Node]:
        """Yield it and all elements below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


class _Refused(Exception):
    """Something that is not read."""


def read_xml(content: bytes, file: str) -> Node:
    """Return the root of the document. Raises UsageError with the line of what is wrong."""
    builder = _Builder()
    parser = builder.parser
    try:
        parser.Parse(content, True)
    except expat.ExpatError as problem:
        why = expat.ErrorString(problem.code)
        raise UsageError(
            f"{file}:{problem.lineno}: not valid XML: {why}", code="import-syntax"
        ) from None
    except _Refused as problem:
        raise UsageError(
            f"{file}:{parser.CurrentLineNumber}: {problem}", code="import-refused"
        ) from None
    except (ValueError, LookupError):  # An encoding that is unknown, or cannot be decoded.
        raise UsageError(
            f"{file}:{parser.CurrentLineNumber}: not valid XML: its encoding is not known",
            code="import-encoding",
        ) from None
    assert builder.root is not None
    return builder.root


class _Builder:
    """Takes the parser's events."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self._open: list[Node] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _doctype(self, *_: object) -> None:
        raise _Refused("a document type (DOCTYPE) is refused, since it can define entities")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= _DEPTH_MAX:
            raise _Refused(f"more than {_DEPTH_MAX} elements within each other")
        node = Node(tag, attributes, self.parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].text += text
