"""Password prompt, shown once; later connections use the password from the spec in memory.

The password is read from the terminal, never from stdin, and is not echoed.
"""

from __future__ import annotations

import getpass
import os
import signal
from typing import TYPE_CHECKING

from pgdyno.errors import Interrupted, SetupError, UsageError

if TYPE_CHECKING:
    from pgdyno.spec import Spec

_TERMINAL = "/dev/tty"


def with_password(spec: Spec, prompt: str | None) -> Spec:
    """Return ``spec`` with its server's password, prompting for it if necessary."""
    if spec.server.kind != "existing":
        return spec
    conninfo = conninfo_for(spec.server.conninfo or "", prompt)
    server = spec.server.model_copy(update={"conninfo": conninfo})
    return spec.model_copy(update={"server": server})


def conninfo_for(conninfo: str, prompt: str | None) -> str:
    """Return ``conninfo`` with a password from the terminal, if necessary.

    ``prompt`` is ``always``, ``never`` or ``None``: prompt only if the server requires a password
    and none is configured. Raises UsageError if a prompt is required and there is no terminal.
    """
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    if prompt == "never":
        return conninfo
    if prompt is None and not (_has_terminal() and _is_missing(conninfo)):
        return conninfo
    user = conninfo_to_dict(conninfo).get("user") or os.environ.get("PGUSER")
    password = _ask(f"Password for user {user}: " if user else "Password: ")
    return make_conninfo(conninfo, password=password)


def _ask(prompt: str) -> str:
    if not _has_terminal():
        raise UsageError(
            "-W requires a terminal to prompt for a password",
            code="no-terminal",
            hint="set PGPASSWORD or use ~/.pgpass",
        )
    try:
        return getpass.getpass(prompt)
    except EOFError:
        raise UsageError("no password was given", code="no-password") from None
    except KeyboardInterrupt:
        raise Interrupted.by(signal.SIGINT) from None


def _has_terminal() -> bool:
    try:
        os.close(os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _is_missing(conninfo: str) -> bool:
    """True if the server requires a password and libpq has none."""
    from pgdyno.server import resolve_conninfo

    try:
        resolve_conninfo(conninfo)
    except SetupError as problem:
        if problem.code == "password-missing":
            return True
        raise
    return False
