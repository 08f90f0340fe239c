"""An error in words, as psql tells it: what, where, and all that the server said of it."""

from __future__ import annotations

from pgdyno.record._rows import ErrorTotal


def place_of(error: ErrorTotal) -> str:
    """The client that it first happened to, and the place in its script, as far as there is one."""
    known = [
        f"client {error.client}" if error.client is not None else "",
        f"group {error.client_group}" if error.client_group != "clients" else "",
        f"{error.file or error.script} line {error.line}" if error.line else error.script,
    ]
    return ", ".join(part for part in known if part)


def told(error: ErrorTotal) -> list[str]:
    """An error in lines, the first of which has its code and its message."""
    word = "" if error.sqlstate.islower() else "ERROR "
    head = f"{word}{error.sqlstate}: {error.message}"
    place = place_of(error)
    at = [f"at {place}: {error.statement}" if error.statement else f"at {place}"] if place else []
    return [head, *(f"  {line}" for line in [*at, *said_besides(error)])]


def said_besides(error: ErrorTotal) -> list[str]:
    """What the server said besides its message, and what we advise, in lines."""
    named = {"DETAIL": error.detail, "HINT": error.hint, "CONTEXT": error.context}
    lines = error.excerpt.splitlines()
    for name, text in named.items():
        lines += [f"{name}:  {line}" if not number else f"  {line}"
                  for number, line in enumerate(text.splitlines())]  # fmt: skip
    return [*lines, *([f"pgdyno:  {error.advice}"] if error.advice else [])]
