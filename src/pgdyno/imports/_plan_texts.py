"""Texts of a JMeter plan: ``${variable}`` and ``${__function(…)}``, and their values in scripts.

A variable of the plan that never changes is replaced by its value. One that extractors, files or
counters set becomes a variable of the script.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus

from msgspec import Struct, field

from pgdyno.imports._lines import RESERVED, CannotTake, names_after_colons

_NESTING_MAX = 20
_RANDOM_LETTERS_MAX = 65_535
_CONTINUES = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff:]")
"""Text after a variable that would belong to its name, or could."""


class Reference(Struct, frozen=True):
    """A variable, or a function with its arguments, in a text."""

    written: str
    name: str
    arguments: list[str] = field(default_factory=list)

    @property
    def is_function(self) -> bool:
        """True for a function."""
        return self.name.startswith("__")


def parts_of(text: str) -> list[str | Reference]:
    """Cut a text at its references."""
    parts: list[str | Reference] = []
    at = 0
    while (start := text.find("${", at)) >= 0:
        end = _end_of(text, start)
        if end is None:
            break
        if start > at:
            parts.append(text[at:start])
        parts.append(_reference(text[start:end]))
        at = end
    if at < len(text):
        parts.append(text[at:])
    return parts


def _end_of(text: str, start: int) -> int | None:
    """Return the end of the reference that begins at ``start``; None if it has none."""
    depth, at = 0, start
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text.startswith("${", at):
            depth, at = depth + 1, at + 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return None


def _reference(written: str) -> Reference:
    inside = written[2:-1].strip()
    found = re.fullmatch(r"(__\w+)\s*(?:\((.*)\))?", inside, re.DOTALL)
    if found is None:
        return Reference(written, inside)
    return Reference(written, found[1], _arguments(found[2] or ""))


def _arguments(text: str) -> list[str]:
    """Cut a function's arguments at commas that are neither escaped nor within a reference."""
    arguments, depth, start, at = [], 0, 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text.startswith("${", at):
            depth += 1
        elif text[at] == "}":
            depth -= 1
        elif text[at] == "," and depth <= 0:
            arguments.append(text[start:at])
            start = at + 1
        at += 1
    arguments.append(text[start:])
    return [re.sub(r"\\([,\\$])", r"\1", each).strip() for each in arguments] if text else []


class Texts:
    """Values of a plan's variables: fixed ones, and names of the others in scripts."""

    def __init__(self, fixed: Mapping[str, str], literals: set[str]) -> None:
        self.fixed = dict(fixed)
        """Texts of the plan's own variables, and of those given."""
        self._given = set(fixed)
        self._names: dict[str, str] = {}
        self._of_functions: dict[str, list[str]] = {}
        self._taken = literals | RESERVED | {"row"}

    def fix(self, name: str, value: str) -> None:
        """Set a variable of the plan, unless the user gave it."""
        if name not in self._given:
            self.fixed[name] = value

    def changes(self, name: str) -> str:
        """Return the name in scripts of a variable whose value changes."""
        if name not in self._names:
            self._names[name] = self._free(name)
        return self._names[name]

    def new(self, name: str) -> str:
        """Return the name of a variable that only the script has."""
        return self._free(name)

    def _free(self, name: str) -> str:
        wanted = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        wanted = f"_{wanted}" if wanted[0].isdigit() else wanted
        found, number = wanted, 1
        while found in self._taken:
            number += 1
            found = f"{wanted}_{number}"
        self._taken.add(found)
        return found

    @property
    def first_values(self) -> dict[str, str]:
        """Values that variables of the scripts have at first, by their names there."""
        return {
            name: self.fixed_text(self.fixed[each])
            for each, name in self._names.items()
            if each in self.fixed
        }

    def fixed_text(self, text: str, depth: int = 0) -> str:
        """Return a text that does not change. Raises CannotTake if it does, or has no value."""
        if depth > _NESTING_MAX:
            raise CannotTake(f"{text}: its variables refer to each other")
        return "".join(
            part if isinstance(part, str) else self._fixed(part, depth) for part in parts_of(text)
        )

    def _fixed(self, part: Reference, depth: int) -> str:
        if part.name in ("__P", "__property"):
            wanted = self.fixed_text(part.arguments[0], depth + 1) if part.arguments else ""
            if wanted in self._given:
                return self.fixed[wanted]
            if (default := _default_of(part)) is not None:
                return self.fixed_text(default, depth + 1)
            raise CannotTake(f"{part.written}: give the property with -D {wanted}=VALUE")
        if part.name == "__urlencode" and part.arguments:
            return quote_plus(self.fixed_text(part.arguments[0], depth + 1))
        if part.is_function:
            raise CannotTake(f"the function {part.written}")
        if part.name in self._names:
            raise CannotTake(f"{part.written} here, since it changes from one request to another")
        if part.name in self.fixed:
            return self.fixed_text(self.fixed[part.name], depth + 1)
        raise CannotTake(f"{part.written}: nothing in the plan sets it; give it with -D NAME=VALUE")

    def number(self, text: str, what: str) -> float:
        """Return a number that does not change; nothing is 0, as in JMeter. Raises CannotTake."""
        value = self.fixed_text(text).strip()
        try:
            number = float(value or "0")
        except ValueError:
            number = float("nan")
        if not 0 <= number < 1e12:
            raise CannotTake(f'{what} "{value[:40]}", which is not a number')
        return number

    def whole(self, text: str, what: str) -> int:
        """Return a whole number that does not change. Raises CannotTake."""
        value = self.fixed_text(text)
        if value != value.strip():  # What JMeter reads as a double may have them.
            raise CannotTake(f'{what} "{value[:40]}": JMeter takes it for 0 because of the blanks')
        number = self.number(text, what)
        if number != int(number):
            raise CannotTake(f"{what} {number:g}, which is not a whole number")
        return int(number)

    def render(self, text: str, literal: Callable[[str], str], before: list[str]) -> str:
        """Return a text for a script; lines that must come before it are added to ``before``.

        Raises CannotTake.
        """
        rendered, name, fixed = "", "", ""
        for part in parts_of(text):
            if isinstance(part, str):
                fixed += part
                continue
            found = self._variable(part, before)
            if found is None:
                fixed += self._fixed(part, 0)
                continue
            rendered += _after(name, literal(fixed))
            name, fixed = found, ""
        return rendered + _after(name, literal(fixed))

    def _variable(self, part: Reference, before: list[str]) -> str | None:
        """Return the variable of the script that has this value; None if it does not change."""
        if not part.is_function:
            return self._names.get(part.name)
        expression = _EXPRESSIONS.get(part.name)
        if expression is None:
            return None
        values = [self.fixed_text(each) for each in part.arguments]
        wanted = _variable_of(part)
        name = self.changes(wanted) if wanted else self._unused(part.name, before)
        before.append(f"\\set {name} {expression(values)}")
        return name

    def _unused(self, function: str, before: list[str]) -> str:
        """Return a variable for a function's value that this request does not have yet."""
        known = self._of_functions.setdefault(function, [])
        for name in known:
            if not any(line.startswith(f"\\set {name} ") for line in before):
                return name
        known.append(self.new(function.strip("_").lower()))
        return known[-1]


def _after(name: str, text: str) -> str:
    """Return a variable, if there is one, and the text after it."""
    if not name:
        return text
    return f":{{{name}}}{text}" if _CONTINUES.match(text) else f":{name}{text}"


def variables_set_by(text: str) -> list[str]:
    """Return the variables that functions in ``text`` set."""
    functions = [each for each in parts_of(text) if isinstance(each, Reference)]
    return [name for each in functions if (name := _variable_of(each))]


def literal_names(text: str) -> set[str]:
    """Return the names that no variable may have, as ``text`` has them after a colon."""
    return names_after_colons(text)


def _default_of(part: Reference) -> str | None:
    at = 1 if part.name == "__P" else 2
    if len(part.arguments) > at:
        return part.arguments[at]
    return "1" if part.name == "__P" and part.arguments else None


def _variable_of(part: Reference) -> str | None:
    """Return the variable that a function sets, too."""
    at = {"__Random": 2, "__RandomString": 2}.get(part.name)
    if at is None or len(part.arguments) <= at:
        return None
    return part.arguments[at] or None


def _random(values: list[str]) -> str:
    bounds = [each for each in values[:2] if re.fullmatch(r"-?\d{1,18}", each)]
    if len(bounds) != 2:
        raise CannotTake("${__Random} without two whole numbers")
    return f"random({bounds[0]}, {bounds[1]})"


def _random_string(values: list[str]) -> str:
    length = values[0] if values else ""
    if not re.fullmatch(r"[1-9]\d{0,4}", length) or int(length) > _RANDOM_LETTERS_MAX:
        raise CannotTake(f'${{__RandomString}} of the length "{length}"')
    if len(values) > 1 and re.search(r"[^A-Za-z0-9]", values[1]):
        raise CannotTake("${__RandomString} of other characters than letters and digits")
    return f"random_text({length})"


def _counter(values: list[str]) -> str:
    if not values or values[0].lower() != "true":
        raise CannotTake("${__counter(FALSE)}, which all threads share")
    return ":txn + 1"


_EXPRESSIONS: dict[str, Callable[[list[str]], str]] = {
    "__Random": _random,
    "__RandomString": _random_string,
    "__UUID": lambda _: "random_uuid()",
    "__threadNum": lambda _: ":client_id + 1",
    "__counter": _counter,
}
"""Functions whose values change, as expressions of the script."""
