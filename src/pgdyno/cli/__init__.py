"""The command line: ``main`` runs a command, whose file ``cli.group`` finds and imports.

Results go to stdout, everything else to stderr. An error that a user can cause ends with one
message and the exit status of the error tree (``pgdyno.errors``).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from typing import Any, NoReturn

import click

from pgdyno.cli import arguments, ending, streams
from pgdyno.cli.group import LazyGroup, listed_commands
from pgdyno.cli.printed import Printed, printable
from pgdyno.cli.typed_words import without_typed_passwords
from pgdyno.errors import (
    INTERNAL,
    REPORT,
    STOP_SIGNALS,
    Ending,
    Interrupted,
    RunError,
    UsageError,
    ending_of,
)
from pgdyno.visible import is_utf8


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from pgdyno._engine import build_info

        click.echo(f"pgdyno {build_info()['version']}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-?", "--help"], "max_content_width": 100},
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version.",
)
def cli() -> None:
    """A dynamometer for PostgreSQL under write load.

    Loads a server, finds the bottleneck, proves it by changing one thing and measuring again, and
    reports the gain and the cost of each remedy.

    \b
      pgdyno demo                                   a scenario, on a server started by pgdyno
      pgdyno investigate postgresql://host/db       your own server
      pgdyno run tpcb-like -c 16 -T 30              one run with a diagnosis
      pgdyno compare tpcb-like -c 8 --set synchronous_commit=off
      pgdyno drill --fault kill --set synchronous_commit=off
    """


def main() -> NoReturn:
    """Entry point of the ``pgdyno`` command."""
    os.umask(0o077)  # Only the user may read what a run records.
    streams.prepare()
    arguments.hide_passwords()
    threading.excepthook = _report_thread_error
    sys.unraisablehook = _ignore_unraisable
    status = _status()
    # All is said. While it ends, the interpreter would let a signal kill it, with another status.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    # What there is goes with the process: looking through it is a fifth of a short command.
    gc.freeze()
    sys.exit(status)


def _status() -> int:
    printed = Printed()
    try:
        try:
            outcome = cli.main(prog_name="pgdyno", standalone_mode=False, obj=printed)
        finally:
            sys.stdout.flush()
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.message, err=True)
        return UsageError.exit_status
    except (Exception, Interrupted) as problem:
        return _report_failure(problem, printed)
    return outcome if isinstance(outcome, int) else 0


def _report_failure(problem: Exception | Interrupted, printed: Printed) -> int:
    """Print the error on stderr, and as JSON if that was requested and not yet printed.

    Returns the exit status.
    """
    if isinstance(problem, Interrupted):
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # One message is enough.
    how = without_typed_passwords(_ending_of(problem))
    if how.code == INTERNAL or isinstance(problem.__cause__, Exception):
        _print_traceback(problem)
    _print_error(how.message, how.hint)
    if not printed.json and ending.asked_for_json(sys.argv[1:]):
        ending.print_ending(problem, how, _command_of(sys.argv[1:]))
    return how.exit_status


def _ending_of(problem: BaseException) -> Ending:
    if isinstance(problem, click.ClickException):
        message, hint = _click_message(problem)
        return Ending(UsageError.exit_status, "usage", message, hint)
    if type(problem).__module__.partition(".")[0] == "psycopg":
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

        click.echo(printable("".join(traceback.format_exception(problem))), err=True)


def _report_thread_error(arguments: threading.ExceptHookArgs) -> None:
    """Print an error in a thread that is not joined; the command continues."""
    if arguments.exc_value is not None:
        _print_traceback(arguments.exc_value)
        problem = f"{type(arguments.exc_value).__name__}: {arguments.exc_value}"
        _print_error(f"internal error in a thread: {problem}", REPORT)


def _ignore_unraisable(unraisable: Any) -> None:
    """Ignore an error in a finalizer, except for its traceback."""
    if isinstance(unraisable.exc_value, Exception):
        _print_traceback(unraisable.exc_value)


def _click_message(problem: click.ClickException) -> tuple[str, str | None]:
    """Return click's message in pgdyno's style, and a hint."""
    if isinstance(problem, click.NoSuchOption):
        from pgdyno.cli.pgbench_options import replacement_hint

        if hint := replacement_hint(problem.option_name):
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
    if context.command is cli and words and words[0] not in listed_commands():
        return _hint_for_unknown(words[0])
    return f"see {context.command_path} --help"


def _hint_for_unknown(word: str) -> str:
    """Return the hint for a first word that is no command: misspelt, or as pgbench takes it."""
    import difflib

    if near := difflib.get_close_matches(word, listed_commands(), 1):
        return f"did you mean {near[0]}? For a database of that name: pgdyno run -d {word}"
    return "pgbench's options follow run: pgdyno run -c 8 -T 60 DATABASE; or see pgdyno --help"


def _print_error(message: str, hint: str | None) -> None:
    click.echo(click.style("error", fg="red", bold=True) + f": {printable(message)}", err=True)
    if hint:
        click.echo(
            "\n" + click.style("hint", fg="cyan", bold=True) + f": {printable(hint)}", err=True
        )
