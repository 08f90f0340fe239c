"""JSON output of a command that failed: one object with the error as on stderr and the data
recorded so far."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from pgdyno.cli.printed import print_json
from pgdyno.errors import Ending, PgdynoError, partial_results


def asked_for_json(words: Sequence[str]) -> bool:
    """True if ``--format json`` is among the arguments, which may be invalid otherwise."""
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def print_ending(problem: BaseException, how: Ending, command: str | None) -> None:
    """Print the object on stdout if it is still open."""
    from pgdyno.record.plain import plain

    with suppress(OSError, PgdynoError):
        print_json(plain(_json_of(problem, how, command)))


def _json_of(problem: BaseException, how: Ending, command: str | None) -> dict[str, Any]:
    from pgdyno.investigate.unfinished import error_of, unfinished, without_run
    from pgdyno.record import RunFile

    partial = partial_results(problem)
    result = without_run(command, how)
    if partial.run_file is not None:
        with suppress(PgdynoError), RunFile(partial.run_file) as run:
            result = unfinished(run).model_copy(update={"command": command, "error": error_of(how)})
    if partial.so_far is not None:
        result = result.model_copy(update={"so_far": dict(partial.so_far)})
    return result.to_json()
