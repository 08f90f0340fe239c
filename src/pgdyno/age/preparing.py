"""Before a server is brought to an age: a spec with that age, on a server that pgdyno starts."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.age._log import LOG_SETTINGS
from pgdyno.conduct import check_age_kept
from pgdyno.errors import UsageError
from pgdyno.spec import Spec
from pgdyno.spec.age import AGE_MAX, PIN_SETTINGS, Ids

SECONDS_DEFAULT = 10.0
"""Time under load at that age."""
SETTINGS = {**LOG_SETTINGS, "autovacuum_naptime": "5s"}
"""Settings of the server: by default autovacuum looks at a database once a minute, and the load
would be over before it does."""
_EXAMPLE = "for example --to 1.7e9"


class Request(Struct, frozen=True):
    """The question."""

    ids: Ids
    age: int
    before_s: float
    """Time under load before the age is raised."""
    seconds: float
    """Time under load at that age."""
    recovery_s_max: float


def parse_age(text: str, option: str = "--to") -> int:
    """Return an age as it is given, such as 1.9e9. Raises UsageError."""
    try:
        age = float(text.replace(",", ""))
    except ValueError:
        age = 0.0
    if not 1 <= age <= AGE_MAX:  # not for NaN either
        raise UsageError(
            f"{option} {text}: an age is a number from 1 to {AGE_MAX:,}",
            code="age-range",
            hint=f"for example {option} 1.7e9; at 2^31, 2,147,483,648, the oldest rows would be"
            " in the future",
        )
    return int(age)


def age_of(spec: Spec, to: str | None, *, multixact: bool) -> tuple[Ids, int]:
    """Return the age that was asked for, by option or by the spec. Raises UsageError."""
    if to is not None:
        return "mxid" if multixact else "xid", parse_age(to)
    if spec.server.age is None or multixact:
        raise UsageError("the age is missing", code="age-missing", hint=_EXAMPLE)
    return spec.server.age


def prepared_spec(spec: Spec, ids: Ids) -> Spec:
    """Return the spec of a server whose age can be raised later. Raises UsageError for a server of
    the user's, and for what excludes it."""
    if spec.server.kind == "existing":
        raise UsageError(
            "pgdyno age works only on servers that pgdyno starts: it stops the server and changes"
            " its control file",
            code="age-own-server",
            hint="leave the connection out; --pg-bindir chooses the version",
        )
    if spec.standby.receivers:
        raise UsageError(
            "pgdyno age works without standbys, none of which follows a server whose WAL was reset",
            code="age-standby",
            hint="leave standby out",
        )
    check_age_kept(spec, ids)
    settings = {**SETTINGS, **PIN_SETTINGS[ids], **spec.server.settings}
    server = {"settings": settings, "xid_age": None, "mxid_age": None}
    return spec.model_copy(update={"server": spec.server.model_copy(update=server)})


def request_of(spec: Spec, asked: tuple[Ids, int], *, before_ms: int, recovery_ms: int) -> Request:
    """Return the ages and times."""
    given = "hold_ms" in spec.load.model_fields_set
    seconds = spec.load.hold_ms / 1000 if given else SECONDS_DEFAULT
    return Request(*asked, before_ms / 1000, seconds, recovery_ms / 1000)
