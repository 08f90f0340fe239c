"""Before a server is saved: a spec of a server that pgdyno starts, and what is done with it."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.age.preparing import parse_age
from pgdyno.conduct import check_age_kept
from pgdyno.errors import UsageError
from pgdyno.spec import Spec
from pgdyno.spec.age import PIN_SETTINGS, Ids


class Request(Struct, frozen=True):
    """Request for a snapshot."""

    spec: Spec
    loaded: bool
    """Under load before it is saved."""
    age: tuple[Ids, int] | None


def request_of(spec: Spec, *, loaded: bool, age: str | None, multixact: bool) -> Request:
    """Return the request, with a spec whose server can be brought to the age at the end.

    Raises UsageError for a server of the user's, and for what excludes it.
    """
    if spec.server.kind == "existing":
        raise UsageError(
            "pgdyno snapshot saves only servers that pgdyno starts: it stops the server to copy its"
            " data",
            code="snapshot-own-server",
            hint="leave the connection out; --from copies a database of your server",
        )
    if spec.standby.receivers:
        raise UsageError(
            "a snapshot has no standbys: their slots would keep WAL that nobody fetches",
            code="snapshot-standby",
            hint="leave standby out here, and use it where a server starts from the snapshot",
        )
    if multixact and age is None:
        raise UsageError(
            "--multixact is about the age, and --age is missing",
            code="contradiction",
            hint="for example --age 1.7e9 --multixact",
        )
    wanted = spec.server.age
    if age is not None:
        wanted = ("mxid" if multixact else "xid", parse_age(age, "--age"))
    if wanted is None:
        return Request(spec, loaded, None)
    check_age_kept(spec, wanted[0])
    settings = {**PIN_SETTINGS[wanted[0]], **spec.server.settings}
    server = {"settings": settings, "xid_age": None, "mxid_age": None}
    spec = spec.model_copy(update={"server": spec.server.model_copy(update=server)})
    return Request(spec, loaded, wanted)
