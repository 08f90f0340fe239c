"""pg_stat_statements on a server that pgdyno starts: loaded with it, and created in its database.

In a database of the user's it is never created; there it is read if it is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.errors import SetupError
from pgdyno.server import ConnInfo, Installation, connect
from pgdyno.server.extensions import STATEMENTS
from pgdyno.spec import Spec

_PRELOAD = "shared_preload_libraries"


def with_statements(
    spec: Spec, installation: Installation, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings with which a server starts, with pg_stat_statements if it is asked for;
    libraries that are named already are kept. Raises SetupError if the build lacks it."""
    if not spec.server.statements:
        return dict(settings)
    if not installation.has_library(STATEMENTS):
        raise SetupError(
            f"PostgreSQL {installation.version} in {installation.bindir} has no {STATEMENTS}",
            code="no-statements",
            hint="install its contrib modules, name another build with --pg-bindir, or leave"
            " --statements out",
        )
    named = [each.strip() for each in settings.get(_PRELOAD, "").split(",") if each.strip()]
    listed = named if STATEMENTS in named else [*named, STATEMENTS]
    return {**settings, _PRELOAD: ", ".join(listed)}


def create_statements(spec: Spec, server: ConnInfo) -> None:
    """Create the extension in the database of a server of pgdyno's, if it is asked for."""
    if spec.server.statements:
        with connect(server) as connection:
            connection.execute(
                f"create extension if not exists {STATEMENTS} schema public".encode()
            )
