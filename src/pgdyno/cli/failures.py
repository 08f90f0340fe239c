"""The end of a command that failed: one message on stderr with a hint, for ``--format json`` an
object on stdout with the error and the data recorded so far, and the status of the error tree.

Arguments that may be mistyped connection strings are not quoted.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import click

from pgdyno.cli.group import listed_commands
from pgdyno.cli.output import Printed, print_json, printable_lines
from pgdyno.errors import (
    INTERNAL,
    REPORT,
    STOP_SIGNALS,
    Ending,
    Interrupted,
    PgdynoError,
    RunError,
    UsageError,
    ending_of,
    partial_results,
)
from pgdyno.escaping import is_utf8, visible
from pgdyno.redact import URI_HINT, blank, may_hold_password, withhold

_NAMING = (
    "-d", "--dbname", "-h", "--host", "-p", "--port", "-U", "--username", "--control", "-f",
    "--file", "-o", "--output", "--report", "--log-prefix", "--recording", "--pg-bindir", "-b",
    "--builtin",
)  # fmt: skip
"""Options whose value names a server, a database, a user or a file."""
_WEIGHT = r"(?<=\.sql)@\w*$"
_REPLACEMENTS = {
    ("--debug",): "leave it out: --verbose-errors prints every error",
    ("--continue-on-error",): (
        "leave it out: a failed transaction is counted by its SQLSTATE, and a lost"
        " connection is opened again"
    ),
}
"""Options of pgbench that pgdyno does not have, and their replacements."""


def report_failure(problem: Exception | Interrupted, printed: Printed) -> int:
    """Print the error on stderr, and as JSON if that was requested and not yet printed.

    Returns the exit status.
    """
    if isinstance(problem, Interrupted):
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # One message is enough.
    how = _without_typed_passwords(_ending_of(problem))
    if how.code == INTERNAL or isinstance(problem.__cause__, Exception):
        _print_traceback(problem)
    _print_error(how.message, how.hint)
    if not printed.json and _asked_for_json(sys.argv[1:]):
        _print_ending(problem, how, _command_of(sys.argv[1:]))
    return how.exit_status


def report_thread_error(arguments: threading.ExceptHookArgs) -> None:
    """Print an error in a thread that is not joined; the command continues."""
    if arguments.exc_value is not None:
        _print_traceback(arguments.exc_value)
        problem = f"{type(arguments.exc_value).__name__}: {arguments.exc_value}"
        _print_error(f"internal error in a thread: {problem}", REPORT)


def ignore_unraisable(unraisable: Any) -> None:
    """Ignore an error in a finalizer, except for its traceback."""
    if isinstance(unraisable.exc_value, Exception):
        _print_traceback(unraisable.exc_value)


def _ending_of(problem: BaseException) -> Ending:
    if isinstance(problem, click.ClickException):
        message, hint = _click_message(problem)
        return Ending(UsageError.exit_status, "usage", message, hint)
    if any(each.__module__.partition(".")[0] == "psycopg" for each in type(problem).__mro__):
        return _connection_ending(problem)
    if isinstance(problem, UnicodeEncodeError) and not all(map(is_utf8, sys.argv)):
        word = next(word for word in sys.argv if not is_utf8(word))
        return Ending(UsageError.exit_status, "usage", f'the argument "{word}" is not UTF-8 text')
    return ending_of(problem)


def _connection_ending(problem: BaseException) -> Ending:
    """Return the ending for an error of psycopg that no command handles: a broken connection."""
    said = " ".join(str(problem).split()) or type(problem).__name__
    hint = "the connection was lost or damaged on the way; see the server's log"
    return Ending(RunError.exit_status, "server-gone", f"the server: {said}", hint)


def _command_of(words: list[str]) -> str | None:
    return next((word for word in words if word in listed_commands()), None)


def _print_traceback(problem: BaseException) -> None:
    """Print the traceback if PGDYNO_TRACEBACK is set."""
    if os.environ.get("PGDYNO_TRACEBACK"):
        import traceback

        click.echo(visible(blank("".join(traceback.format_exception(problem)))), err=True)


def _print_error(message: str, hint: str | None) -> None:
    click.echo(
        click.style("error", fg="red", bold=True) + f": {printable_lines(message)}", err=True
    )
    if hint:
        click.echo(
            "\n" + click.style("hint", fg="cyan", bold=True) + f": {printable_lines(hint)}",
            err=True,
        )


def _asked_for_json(words: Sequence[str]) -> bool:
    """True if ``--format json`` is among the arguments, which may be invalid otherwise."""
    return "--format=json" in words or ("--format", "json") in pairwise(words)


def _print_ending(problem: BaseException, how: Ending, command: str | None) -> None:
    """Print the object on stdout if it is still open."""
    from pgdyno.record.plain import plain

    with suppress(OSError, PgdynoError):
        print_json(plain(_json_of(problem, how, command)))


def _json_of(problem: BaseException, how: Ending, command: str | None) -> dict[str, object]:
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


def _click_message(problem: click.ClickException) -> tuple[str, str | None]:
    """Return click's message in pgdyno's style, and a hint."""
    if isinstance(problem, click.NoSuchOption):
        if hint := _replacement_hint(problem.option_name):
            return f"{problem.option_name} is an option of pgbench that pgdyno does not have", hint
        if problem.option_name in ("-V", "--version"):
            return _in_own_style(problem.format_message()), "pgdyno -V prints the version"
    return _in_own_style(problem.format_message()), _usage_hint(problem)


def _in_own_style(message: str) -> str:
    """Return click's sentence in pgdyno's style: no capital, no final period."""
    return (message[:1].lower() + message[1:]).rstrip(".")


def _usage_hint(problem: click.ClickException) -> str | None:
    context = getattr(problem, "ctx", None)
    if context is None:
        return None
    words = sys.argv[1:]
    if context.parent is None and words and words[0] not in listed_commands():
        return _hint_for_unknown(words[0])
    return f"see {context.command_path} --help"


def _hint_for_unknown(word: str) -> str:
    """Return the hint for a first word that is no command: misspelt, or as pgbench takes it."""
    import difflib

    if near := difflib.get_close_matches(word, listed_commands(), 1):
        return f"did you mean {near[0]}? For a database of that name: pgdyno run -d {word}"
    return "pgbench's options follow run: pgdyno run -c 8 -T 60 DATABASE; or see pgdyno --help"


def _replacement_hint(option: str) -> str | None:
    """Return the hint for pgbench's ``option``; ``None`` if it is not an option of pgbench."""
    name = option.partition("=")[0]
    return next((hint for names, hint in _REPLACEMENTS.items() if name in names), None)


def _without_typed_passwords(how: Ending) -> Ending:
    """Return ``how`` without words of the command line that may contain a password."""
    names = (re.sub(_WEIGHT, "", name) for name in _names(sys.argv[1:]))
    words = [name for name in names if may_hold_password(name)]
    if not words:
        return how
    message, hint = withhold(how.message, words), how.hint
    if hint and withhold(hint, words) != hint:
        hint = URI_HINT
    return replace(how, message=message, hint=hint)


def _names(words: list[str]) -> Iterator[str]:
    """Yield the arguments that are positional or values of the options in ``_NAMING``."""
    with_value = _options_with_value(words)
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            yield from (value,) if option in _NAMING or option not in with_value else ()
        elif word.startswith("-") and not word.startswith("--") and len(word) > 2:
            yield from (word[2:],) if word[:2] in _NAMING or word[:2] not in with_value else ()
        elif before not in with_value or before in _NAMING:
            yield word
        before = word


def _options_with_value(words: list[str]) -> set[str]:
    """Return the options of the command in ``words`` that a value follows."""
    found: set[str] = set()
    for name in words[:1]:
        with suppress(KeyError):
            command = listed_commands()[name].load()
            commands = [command, *getattr(command, "commands", {}).values()]
            for parameter in (each for command in commands for each in command.params):
                if isinstance(parameter, click.Option) and not parameter.is_flag:
                    found.update(parameter.opts)
    return found
