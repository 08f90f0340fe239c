"""The option --against of ``pgdyno compare``, or server.against of its spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgdyno.cli.given_options import given_options
from pgdyno.errors import UsageError

if TYPE_CHECKING:
    from pgdyno.spec import Spec


def versions_of(given: Mapping[str, Any], spec: Spec) -> str | None:
    """Return the version or directory to compare with; None if something else is compared.

    An option that names another change overrides the spec. Raises UsageError for what cannot be
    combined.
    """
    others = given_options("settings", "pool_max", "vary", "profile")
    against: str | None = given["against"]
    if against is None:
        return None if others else spec.server.against
    if others:
        raise UsageError(
            f"{others[0]} cannot be combined with --against, which is the changed side",
            code="contradiction",
            hint="--base-set NAME=VALUE sets a setting of both versions",
        )
    if spec.server.kind != "embedded":
        raise UsageError(
            "--against cannot be used with a running server: pgdyno starts both versions",
            code="contradiction",
            hint="leave the connection string out, or the URL",
        )
    return against
