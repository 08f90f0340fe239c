"""The lines of a script that is being written, and the names of its variables."""

from __future__ import annotations

import re


class Lines:
    """Lines of a script."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._taken: set[str] = set()

    def add(self, line: str) -> None:
        """Add a line."""
        self._lines.append(line)

    def set(self, name: str, expression: str) -> str:
        """Set a new variable with about this name; return it."""
        name = self._named(name)
        self.add(f"\\set {name} {expression}")
        return name

    def array(self, name: str, count: int | str, expression: str) -> str:
        """Put values into a new array with about this name; return it. The count is a number or a
        variable."""
        name = self._named(name)
        self.add(f"\\array {name} {count} {expression}")
        return name

    def text(self) -> str:
        """Return the script."""
        return "\n".join(self._lines) + "\n"

    def _named(self, name: str) -> str:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"v_{plain}"
        number, free = 2, plain
        while free in self._taken:
            free, number = f"{plain}_{number}", number + 1
        self._taken.add(free)
        return free
