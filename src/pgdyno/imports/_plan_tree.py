"""Elements of a JMeter plan: each is followed by a ``hashTree`` with those below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.errors import UsageError
from pgdyno.imports._xml import Node, read_xml


@dataclass
class Element:
    """An element of a plan, with its properties and the elements below it."""

    node: Node
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

    def records(self, name: str) -> list[Record]:
        """Return the members of a collection."""
        found = self.node.named(name)
        if found is not None and found.tag == "elementProp":  # Arguments within an element.
            inner = [each for each in found.children if each.tag == "collectionProp"]
            found = inner[0] if inner else None
        return [] if found is None else [Record(each) for each in found.children]

    def walk(self) -> Iterator[Element]:
        """Yield it and all elements below it that are switched on, in order."""
        yield self
        for element in self.below:
            if element.enabled:
                yield from element.walk()


class Record(Struct, frozen=True):
    """A member of a collection: a text, or an element with properties."""

    node: Node

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


def _property(node: Node, name: str) -> str | None:
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
    root = read_xml(content, file)
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


def _elements(tree: Node) -> list[Element]:
    found: list[Element] = []
    for node in tree.children:
        if node.tag != "hashTree":
            found.append(Element(node))
        elif found:
            found[-1].below.extend(_elements(node))
    return found
