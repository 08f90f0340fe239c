"""XML of a JMeter plan as a tree of elements with their lines, without document types or entities:
each element is followed by a ``hashTree`` with those below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from msgspec import Struct

from pgdyno.errors import UsageError

_DEPTH_MAX = 200


@dataclass
class XmlNode:
    """An element."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[XmlNode] = field(default_factory=list)
    text: str = ""
    """All of its own text."""

    def named(self, name: str) -> XmlNode | None:
        """Return its first child with this attribute ``name``."""
        return next((each for each in self.children if each.attributes.get("name") == name), None)

    def walk(self) -> Iterator[XmlNode]:
        """Yield it and all elements below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


class _Refused(Exception):
    """Something that is not read."""


def _read_xml(content: bytes, file: str) -> XmlNode:
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
        self.root: XmlNode | None = None
        self._open: list[XmlNode] = []
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
        node = XmlNode(tag, attributes, self.parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].text += text


@dataclass
class Element:
    """An element of a plan, with its properties and the elements below it."""

    node: XmlNode
    below: list[Element] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Name of its class, such as ``HTTPSamplerProxy``."""
        return self.node.tag.rpartition(".")[2]

    @property
    def line(self) -> int:
        """Line of its beginning."""
        return self.node.line

    @property
    def name(self) -> str:
        """Its name in the plan."""
        return " ".join(self.node.attributes.get("testname", "").split())

    @property
    def enabled(self) -> bool:
        """False if it was switched off."""
        return self.node.attributes.get("enabled", "true") != "false"

    @property
    def described(self) -> str:
        """Kind and name, for messages."""
        return f'the {self.node.tag} "{self.name}"' if self.name else f"the {self.node.tag}"

    def text(self, name: str, default: str = "") -> str:
        """Return a property's text."""
        found = _property(self.node, name)
        return default if found is None else found

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a property that is true or false."""
        return self.text(name, str(default)).strip().lower() == "true"

    def records(self, name: str) -> list[PlanRecord]:
        """Return the members of a collection."""
        found = self.node.named(name)
        if found is not None and found.tag == "elementProp":  # Arguments within an element.
            inner = [each for each in found.children if each.tag == "collectionProp"]
            found = inner[0] if inner else None
        return [] if found is None else [PlanRecord(each) for each in found.children]

    def walk(self) -> Iterator[Element]:
        """Yield it and all elements below it that are switched on, in order."""
        yield self
        for element in self.below:
            if element.enabled:
                yield from element.walk()


class PlanRecord(Struct, frozen=True):
    """A member of a collection: a text, or an element with properties."""

    node: XmlNode

    @property
    def line(self) -> int:
        """Line of its beginning."""
        return self.node.line

    @property
    def own_text(self) -> str:
        """Text of a member that is a text."""
        return self.node.text

    def text(self, name: str, default: str = "") -> str:
        """Return a property's text."""
        found = _property(self.node, name)
        return default if found is None else found


def _property(node: XmlNode, name: str) -> str | None:
    for each in node.children:
        if each.attributes.get("name") == name:
            return each.text
        # A number may be written with name and value as elements.
        parts = {part.tag: part.text for part in each.children}
        if parts.get("name") == name and "value" in parts:
            return parts["value"]
    return None


def read_plan(content: bytes, file: str) -> Element:
    """Return the test plan. Raises UsageError."""
    root = _read_xml(content, file)
    if root.tag != "jmeterTestPlan":
        raise UsageError(
            f"{file}:{root.line}: this is no JMeter test plan: it begins with <{root.tag}>",
            code="import-no-plan",
        )
    tops = [top for tree in root.children if tree.tag == "hashTree" for top in _elements(tree)]
    plan = next((top for top in tops if top.kind == "TestPlan"), None)
    if plan is None:
        raise UsageError(f"{file}: there is no TestPlan in it", code="import-empty-plan")
    return plan


def _elements(tree: XmlNode) -> list[Element]:
    found: list[Element] = []
    for node in tree.children:
        if node.tag != "hashTree":
            found.append(Element(node))
        elif found:
            found[-1].below.extend(_elements(node))
    return found
