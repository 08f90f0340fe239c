"""Text of an error, in the format of psql: message, position, and the server's details."""

from __future__ import annotations

from pgdyno.record._rows import ErrorTotal


def position_of(error: ErrorTotal) -> str:
    """Return the first client with the error, and the position in its script if there is one."""
    known = [
        f"client {error.client}" if error.client is not None else "",
        f"group {error.client_group}" if error.client_group != "clients" else "",
        f"{error.file or error.script} line {error.line}" if error.line else error.script,
    ]
    return ", ".join(part for part in known if part)


def error_lines(error: ErrorTotal) -> list[str]:
    """Return the lines of an error, the first with its code and message."""
    word = "" if error.sqlstate.islower() else "ERROR "
    head = f"{word}{error.sqlstate}: {error.message}"
    where = position_of(error)
    at = [f"at {where}: {error.statement}" if error.statement else f"at {where}"] if where else []
    return [head, *(f"  {line}" for line in [*at, *server_details(error)])]


def server_details(error: ErrorTotal) -> list[str]:
    """Return the lines of the server's details other than its message, and of pgdyno's advice."""
    named = {"DETAIL": error.detail, "HINT": error.hint, "CONTEXT": error.context}
    lines = error.excerpt.splitlines()
    for name, text in named.items():
        lines += [f"{name}:  {line}" if not number else f"  {line}"
                  for number, line in enumerate(text.splitlines())]  # fmt: skip
    return [*lines, *([f"pgdyno:  {error.advice}"] if error.advice else [])]
