"""The daemon: one look after the other, each published by HTTP and, where asked for, in SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from msgspec import Struct, field

from pgdyno.errors import PgdynoError, RunError, SetupError, UsageError
from pgdyno.govern._in_sql import SqlDecision, removed_on
from pgdyno.govern._reading import AgeReading, Reader, is_standby, reading
from pgdyno.govern._serving import serving
from pgdyno.govern._state import Board, WhenUnknown, remember, was_paused
from pgdyno.govern._vacuuming import Vacuumer, check_rights
from pgdyno.govern.deciding import AgeMarks, Decider
from pgdyno.results.govern import GovernDecision, Vacuuming
from pgdyno.server import ConnInfo, resolve_conninfo, server_behind
from pgdyno.server.connecting.complaints import one_line
from pgdyno.server.connecting.exclusive_use import sole_governor
from pgdyno.server.versions import caution, plain_version
from pgdyno.spec.address import LOOPBACK, Address
from pgdyno.spec.govern import INTERVAL_S_MAX

PORT = 9188
_ADDRESS = Address(LOOPBACK, PORT)
VALID_S = 10.0
_VALID_LOOKS = 5
_RETRY_S = 1.0
_FATAL = ("governor-running", "another-server", "govern-view-taken")
"""Codes of errors that no waiting cures."""


class GovernRequest(Struct, frozen=True):
    """A governor, as the user wants it."""

    conninfo: str | None
    control: str | None = None
    marks: AgeMarks = field(default_factory=AgeMarks)
    interval_s: float = 1.0
    when_unknown: WhenUnknown = "pause"
    listen: Address = _ADDRESS
    sql_schema: str | None = None
    vacuum: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for looks so rare that a decision would be believed for too long."""
        if not 0 < self.interval_s <= INTERVAL_S_MAX:
            raise UsageError(
                f"--interval {self.interval_s:g} s: the time between two looks is more than 0, and"
                f" at most {INTERVAL_S_MAX:g} s",
                code="govern-interval",
                hint=f"a decision is believed for {_VALID_LOOKS} times as long; a look costs one"
                " query",
            )

    @property
    def valid_s(self) -> float:
        """The age from which a reading says nothing any more."""
        return max(VALID_S, _VALID_LOOKS * self.interval_s)


def govern(
    request: GovernRequest, tell: Callable[[GovernDecision], None], note: Callable[[str], None]
) -> None:
    """Govern until a stop signal raises Interrupted. ``tell`` gets every decision, ``note`` text.

    Raises SetupError if the server cannot be reached at first, if another governor is at work on it
    or the address is taken, and RunError if another server answers in its place.
    """
    conninfo = _resolved(request, note)
    board = Board(conninfo.uri_without_password, request.marks, request.valid_s,
                  request.when_unknown)  # fmt: skip
    with ExitStack() as held:
        governor = _GovernorDaemon(request, conninfo, board, tell, note)
        held.callback(governor.close)
        session = held.enter_context(ExitStack())
        governor.begin(session)
        url = held.enter_context(serving(board, request.listen))
        note(f"governing {conninfo.uri_without_password}; loaders ask {url}")
        while True:
            governor.look_until_lost()
            session.close()
            governor.begin_again(session)


def decide_once(request: GovernRequest, note: Callable[[str], None]) -> GovernDecision:
    """Return the decision of one look, without being the governor of the server."""
    conninfo = _resolved(request, note)
    with reading(conninfo) as reader:
        look = reader.look(slow=True, worst_too=True)
        return _decider(request, conninfo, reader, look).decide(look)


def _resolved(request: GovernRequest, note: Callable[[str], None]) -> ConnInfo:
    conninfo = server_behind(resolve_conninfo(request.conninfo), request.control)
    caution(conninfo.version, note)
    return conninfo


def _decider(
    request: GovernRequest, conninfo: ConnInfo, reader: Reader, look: AgeReading
) -> Decider:
    version = reader.conn.info.parameter_status("server_version") or ""
    paused = was_paused(look.slow.limits.system_identifier)
    return Decider(
        request.marks,
        conninfo.uri_without_password,
        plain_version(version),
        request.valid_s,
        request.interval_s,
        look.at_s if paused else None,
    )


class _GovernorDaemon:
    """State of a daemon."""

    def __init__(
        self,
        request: GovernRequest,
        conninfo: ConnInfo,
        board: Board,
        tell: Callable[[GovernDecision], None],
        note: Callable[[str], None],
    ) -> None:
        self._request = request
        self._conninfo = conninfo
        self._board = board
        self._tell = tell
        self._note = note
        self._vacuumer = Vacuumer(conninfo) if request.vacuum else None
        self._in_sql = (
            SqlDecision(request.sql_schema, request.valid_s) if request.sql_schema else None
        )
        self._decider: Decider | None = None
        self._identifier: str | None = None
        self._last: GovernDecision | None = None

    def begin(self, held: ExitStack) -> None:
        """Become the governor of the server. Raises SetupError, RunError or psycopg.Error."""
        self._locks = held.enter_context(sole_governor(self._conninfo))
        self._reader = held.enter_context(reading(self._conninfo))
        look = self._reader.look(slow=True)
        limits = look.slow.limits
        if limits.in_recovery:
            raise is_standby(self._conninfo)
        if self._identifier is None:
            self._identifier = limits.system_identifier
            self._decider = _decider(self._request, self._conninfo, self._reader, look)
            if self._decider.paused_at_s is not None:
                self._board.keep_paused()
            if self._vacuumer and (said := check_rights(self._reader.conn, self._conninfo.user)):
                self._note(said)
        elif limits.system_identifier != self._identifier:
            raise RunError(
                f"{self._conninfo.uri_without_password}: another server answers there now",
                code="another-server",
                hint="start the governor again if that one is to have one",
            )
        if self._in_sql:
            self._in_sql.make(self._reader.conn, self._locks[-1])

    def begin_again(self, held: ExitStack) -> None:
        """Wait until the server can be asked again."""
        while True:
            time.sleep(_RETRY_S)
            with _told() as problems:
                self.begin(held)
                self._note("the database answers again")
                return
            held.close()
            self._lose(problems[0])

    def look_until_lost(self) -> None:
        """Look and publish until the server cannot be asked any more."""
        with _told() as problems:
            for look in self._looks():
                self._publish(look)
        self._lose(problems[0])

    def _looks(self) -> Iterator[AgeReading]:
        assert self._decider is not None
        locks_seen_s = 0.0
        while True:
            begun_s = time.monotonic()
            known = self._last is not None and self._last.known
            away = self._last is not None and self._last.decision != "go"
            yield self._reader.look(slow=not known, worst_too=away)
            if begun_s - locks_seen_s >= _RETRY_S * 5:
                locks_seen_s = begun_s
                for lock in self._locks:
                    lock.execute("select")  # Ended by somebody, it would be another's too.
            passed_s = time.monotonic() - begun_s
            time.sleep(max(0.0, self._request.interval_s - passed_s))

    def _publish(self, look: AgeReading) -> None:
        assert self._decider is not None
        assert self._identifier is not None
        was = self._decider.paused_at_s is not None
        decision = self._decider.decide(look, self._vacuumed())
        if look.slow_age_s and self._last and decision.decision != self._last.decision:
            look = self._reader.look(slow=True, worst_too=decision.decision != "go")
            decision = self._decider.decide(look, self._vacuumed())
        paused = self._decider.paused_at_s is not None
        if paused != was:
            why = remember(self._identifier, paused=paused)
            if why and paused:
                self._note(
                    f"warning: the pause cannot be kept for a governor that is started again: {why}"
                )
        self._board.put(decision, look.at_s)
        if self._in_sql:
            self._in_sql.write(self._reader.conn, self._board.current())
        if self._vacuumer:
            self._vacuumer.attend(decision)
        self._say(decision)

    def _vacuumed(self) -> Vacuuming | None:
        return self._vacuumer.state() if self._vacuumer else None

    def _lose(self, why: str) -> None:
        self._board.lose(why)
        self._say(self._board.current())

    def _say(self, decision: GovernDecision) -> None:
        self._last = decision
        self._tell(decision)

    def close(self) -> None:
        """End a vacuum in progress, and remove the governor's view and table."""
        if self._vacuumer:
            self._vacuumer.close()
        if self._in_sql and self._identifier:
            removed_on(self._conninfo, self._in_sql)


@contextmanager
def _told() -> Iterator[list[str]]:
    """Collect why the server cannot be asked; other errors are raised."""
    import psycopg

    problems: list[str] = []
    try:
        yield problems
    except SetupError as problem:
        if problem.code in _FATAL:
            raise
        problems.append(problem.message)
    except PgdynoError:
        raise
    except psycopg.Error as problem:
        problems.append(one_line(str(problem)))
