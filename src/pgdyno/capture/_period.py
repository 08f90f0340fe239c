"""The load of a period: counters and samples of sessions, the server's log, and the window of a
check. It is kept as far as it was read if the server ends, or the user stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from pgdyno.capture._accesses import Accesses
from pgdyno.capture._catalogue import Catalogue
from pgdyno.capture._course import Read
from pgdyno.capture._log_lines import Period
from pgdyno.capture._logs import LogTransactions, transactions_in
from pgdyno.capture._readings import STATEMENTS_MAX, Readings
from pgdyno.capture._sampling import Samples
from pgdyno.capture._skew import Updates
from pgdyno.check import Reached
from pgdyno.check.observing import Observed, observing
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import Interrupted, PgdynoError, SetupError
from pgdyno.numbers import counted
from pgdyno.probe.statements import Rise, StatementsUnavailable, busiest, source_of
from pgdyno.server.extensions import STATEMENTS

if TYPE_CHECKING:
    import psycopg

    from pgdyno.json_types import Row


class Load(Struct):
    """The load of a period."""

    server: Row
    """The server's settings that decide which statements are seen."""
    seconds: float
    rises: dict[str, Rise]
    texts: dict[str, str]
    samples: Samples
    transactions: float
    reads: list[Read]
    updates: dict[int, Updates]
    """By the ids of tables."""
    skews: dict[int, float | None]
    """Exponents of updates, likewise."""
    accesses: Accesses
    log: LogTransactions
    gaps: list[str]
    stopped: Interrupted | None
    """The user's signal, if it was stopped before its end."""
    ended: bool
    """True if the server does not answer any more."""
    observed: Observed = field(default_factory=Observed)
    """The view of a check; not complete if the server has ended."""


def observed_load(
    reached: Reached,
    watcher: Watcher,
    period: Callable[[], AbstractContextManager[object]],
    watch: Callable[[], Load],
) -> Load:
    """Return the load that a function watches while a check does, and within a ``period``. Raises
    PgdynoError and psycopg.Error, unless only the end of the server is the reason."""
    import psycopg

    load = None
    try:
        with observing(reached, watcher) as seen, period():
            load = watch()
            load.observed = seen
    except (PgdynoError, psycopg.Error):
        if load is None or not load.ended:
            raise
        load.gaps.append("CPU time and findings are not known, as the server ended")
    return load


def watched(
    connection: psycopg.Connection[Any], catalogue: Catalogue, seconds: float, logs: Sequence[Path]
) -> Load:
    """Watch the load of a server for so long, or until it ends. Raises SetupError for one that does
    not count statements, and psycopg.Error for one that ends at once."""
    try:
        readings = Readings(connection, source_of(connection), catalogue.ids)
        samples = Samples(connection)
        stopped = readings.watch(samples, seconds)
    except StatementsUnavailable as problem:
        raise SetupError(
            f"the load cannot be captured: {problem.why}",
            code="capture-statements",
            hint=f"it is known by the statements that {STATEMENTS} counts: {problem.allow}",
        ) from None
    rises = {each: readings.rises[each] for each in busiest(readings.rises)[:STATEMENTS_MAX]}
    return Load(
        server=readings.server,
        seconds=readings.seconds,
        rises=rises,
        texts={each: text for each, text in readings.texts.items() if each in rises},
        samples=samples,
        transactions=readings.transactions,
        reads=readings.reads,
        updates=readings.updates,
        skews=readings.exponents(catalogue.tables),
        accesses=readings.accesses,
        log=_logged(readings, logs),
        gaps=[*readings.gaps, *_unseen(readings, rises)],
        stopped=stopped,
        ended=readings.ended,
    )


def _unseen(readings: Readings, rises: Mapping[str, Rise]) -> Iterator[str]:
    """Yield what is not seen of the statements."""
    if not readings.server["sees_others"]:
        yield "statements of other roles are not seen: GRANT pg_monitor TO the role"
    if (beyond := len(readings.rises) - len(rises)) > 0:
        number = counted(beyond, "statement is", "statements are")
        yield f"{number} left out beyond the {STATEMENTS_MAX:,} that take the most time"
    if gone := sum(each not in readings.texts for each in rises):
        number = counted(gone, "statement has", "statements have")
        yield f"{number} no text any more, and are left out"


def _logged(readings: Readings, logs: Sequence[Path]) -> LogTransactions:
    """Return the transactions of logs in the time between the readings."""
    if not logs:
        return LogTransactions([], [])
    period = Period(readings.server["now"], readings.last_at)
    try:
        return transactions_in(logs, readings.server["database"], period)
    except OSError as problem:
        return LogTransactions([], [f"the log cannot be read any more: {problem.strerror}"])
