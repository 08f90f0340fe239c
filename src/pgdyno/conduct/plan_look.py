"""The plans of the load's statements, looked at beside what is measured: see ``pgdyno.plans``.

On a server of pgdyno's the statements are executed, and undone, with changes that might make them
faster. On any other they are only explained, unless ``load.plans`` permits more. To compare two
sides they are only explained on any server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from msgspec.structs import asdict

from pgdyno.errors import PgdynoError
from pgdyno.record import PlanOverTime, StatementTotal, UnusualSetting
from pgdyno.record.events import SESSION_SETTINGS, note_missing
from pgdyno.server import catalog_first
from pgdyno.spec import Change

if TYPE_CHECKING:
    from pgdyno._engine import SampledTransaction
    from pgdyno.conduct._session import Session
    from pgdyno.plans.look import Executes, ExplainedLoad, LoadSample, PlanLook
    from pgdyno.server import ConnInfo

SECONDS_MAX = 2.0
SHARE_MAX = 1 / 3
"""Of the time that was measured, so that a short run stays one."""
SECONDS_MIN = 0.1
FIRST_S_MAX = 0.5
"""For the plans when the load begins."""
CHANGED_AFTER_S_MIN = 10
"""Shortest measurement in which plans may change: autovacuum looks for tables to analyze once a
minute, and for those of a database first after a part of that."""
OWNED_SHARE_MIN = 0.01
"""Part of the load's time that a script takes, from which on its statements are looked at."""
_UNSEEN = "the plans of the statements were not looked at"


def look_at_first_plans(session: Session) -> None:
    """Explain the statements of the load that runs and is not measured yet, to tell afterwards of
    plans that changed (see ``plans_over_time``). Nothing is executed.

    Nothing is done for a measurement that is shorter than ``CHANGED_AFTER_S_MIN``, nor where plans
    are not looked at; what fails is an event of the kind ``warning``.
    """
    session.first_plans = None
    if not _are_asked_for(session) or session.spec.load.hold_ms < 1000 * CHANGED_AFTER_S_MIN:
        return
    if not session.samples:
        session.wait(FIRST_S_MAX)
    with _warning(session, "the plans of the statements when the load began were not looked at"):
        session.first_plans = _explained(session, session.samples)


def look_at_plans(session: Session, slice_ids: Sequence[int]) -> None:
    """Ask for the load's unusual settings, look at the plans of the statements of these slices, and
    record both with the last one.

    A running load stops for the plans, and starts again under the change of these slices. They are
    not looked at with ``load.plans`` at none, for a load of HTTP requests, and in a run that is too
    short for it; plans that cannot be had are an event of the kind ``warning``, settings that
    cannot are the missing probe ``SESSION_SETTINGS``.
    """
    if session.target.server is None or not slice_ids:
        return
    unusual = _unusual(session)
    rows = [asdict(each) for each in unusual]
    session.recorder.add_rows("unusual_setting", rows, slice_id=slice_ids[-1])
    run = session.reader()
    seconds_max = min(SECONDS_MAX, SHARE_MAX * run.seconds([*slice_ids]))
    if not _are_asked_for(session) or seconds_max < SECONDS_MIN:
        return
    change = Change.from_json(run.slice(slice_ids[-1]).change)
    # The probes would take for the load's what is executed here.
    executes = _executes(session)
    with _paused(session, change), session.probes.rest(), _warning(session, _UNSEEN):
        look = _look(session, slice_ids, seconds_max, executes=executes, unusual=unusual)
        _record(session, look, slice_ids[-1])
        rows = [asdict(each) for each in _plans_over_time(session)]
        session.recorder.add_rows("plan_over_time", rows, slice_id=slice_ids[-1])


def _plans_over_time(session: Session) -> Iterator[PlanOverTime]:
    """Explain again the statements whose first plans are known; yield both forms, once."""
    from pgdyno.plans.forms import both_in_one_line, fingerprint

    first, session.first_plans = session.first_plans, None
    if first is None:
        return
    for place, plan in _explained(session, first.transactions).plans.items():
        if before := first.plans.get(place):
            is_changed = fingerprint(before) != fingerprint(plan)
            yield PlanOverTime(*place, *both_in_one_line(before, plan), is_changed)


def _explained(session: Session, transactions: Sequence[SampledTransaction]) -> ExplainedLoad:
    from pgdyno.plans.look import explained_load

    sample = _sample(session, transactions)
    return explained_load(_as_the_load(session), sample, seconds_max=FIRST_S_MAX)


def _unusual(session: Session) -> list[UnusualSetting]:
    from pgdyno.plans.unusual import unusual_settings

    try:
        return unusual_settings(
            _as_the_load(session), session.active.session_statement(), _own_settings(session)
        )
    except (PgdynoError, psycopg.Error) as problem:
        note_missing(session.recorder, SESSION_SETTINGS, str(problem))
        return []


def _as_the_load(session: Session) -> ConnInfo:
    """Return how to connect as the load's sessions do, to the server itself."""
    server = session.target.of_load
    own = any(each.own for each in session.workloads.values())
    return server if own else catalog_first(server)


def _are_asked_for(session: Session) -> bool:
    """Return whether plans are to be looked at, and are those of a server."""
    has_plans = session.target.server is not None and session.spec.http is None
    return has_plans and session.spec.load.plans != "none"


def _executes(session: Session) -> Executes:
    """Return which statements are executed, and undone."""
    is_own = session.target.cluster is not None
    plans = session.spec.load.plans or ("try" if is_own else "explain")
    if plans == "explain":
        return "nothing"
    return "everything" if is_own or plans == "try" else "reads"


@contextmanager
def _paused(session: Session, change: Change) -> Iterator[None]:
    """Stop the load for the block, if one runs, and start it again, both under ``change``."""
    was_loaded = session.is_loaded
    session.interrupt_load()
    session.prepare(change)
    yield
    if was_loaded:
        session.apply(change)


def look_at_sides(session: Session, sides: Sequence[tuple[Change, Sequence[int]]]) -> None:
    """Explain the statements of a load under each change, with the values that the last load sent,
    and record the plans with the last of its slices. No load runs now.

    Nothing is executed. Each change is in force once, that of the last load first. Nothing is done
    with ``load.plans`` at none, for a load of HTTP requests, and where the sides have different
    scripts; what fails is an event of the kind ``warning``.
    """
    if not _are_asked_for(session):
        return
    first, *others = (session.active.spec(change).scripts for change, _ in sides)
    if any(each != first for each in others):
        return
    for change, slice_ids in sorted(sides, key=lambda side: side[0] != session.active.change):
        with _warning(session, _UNSEEN):
            session.prepare(change)
            with session.probes.rest():
                look = _look(session, slice_ids, SECONDS_MAX, executes="nothing")
            _record(session, look, slice_ids[-1])


@contextmanager
def _warning(session: Session, lack: str) -> Iterator[None]:
    """Record what fails in the block as an event of the kind ``warning``, behind ``lack``."""
    try:
        yield
    except (PgdynoError, psycopg.Error) as problem:
        session.recorder.add_event("warning", f"{lack}: {problem}")


def _look(
    session: Session,
    slice_ids: Sequence[int],
    seconds_max: float,
    *,
    executes: Executes,
    unusual: Sequence[UnusualSetting] = (),
) -> PlanLook:
    from pgdyno.plans.look import PlanLook, look_at_plans

    run = session.reader()
    totals, seconds = run.statements([*slice_ids]), run.seconds([*slice_ids])
    owned = _owned(totals)
    transactions = [each for each in session.samples if (each["group"], each["script"]) in owned]
    if not transactions:
        return PlanLook()
    sample = _sample(session, transactions, seconds=seconds, totals=totals, unusual=unusual)
    server = _as_the_load(session)
    target = session.target
    superuser = None if target.load_user is None else target.conninfo
    return look_at_plans(
        server, sample, executes=executes, seconds_max=seconds_max, superuser=superuser
    )


def _sample(
    session: Session,
    transactions: Sequence[SampledTransaction],
    *,
    seconds: float = 0.0,
    totals: Sequence[StatementTotal] = (),
    unusual: Sequence[UnusualSetting] = (),
) -> LoadSample:
    from pgdyno.plans.look import LoadSample

    return LoadSample(
        transactions=transactions,
        per_s={each.place: each.done / seconds for each in totals},
        finding={each.place for each in totals if 2 * each.untouched < each.done},
        protocol=session.active.spec().load.protocol,
        setup=session.active.session_statement(),
        unusual=unusual,
    )


def _own_settings(session: Session) -> set[str]:
    """Return the settings that pgdyno gives to a server of its own and the spec does not, and those
    of the change in force."""
    cluster = session.target.cluster
    configured = {*cluster.configured} if cluster is not None else set()
    return (configured | {*session.active.change.settings}) - {*session.spec.server.settings}


def _owned(totals: Sequence[StatementTotal]) -> set[tuple[str, str]]:
    """Return the scripts, by group, that take ``OWNED_SHARE_MIN`` of the time in statements."""
    by_script: dict[tuple[str, str], float] = {}
    for total in totals:
        key = (total.client_group, total.script)
        by_script[key] = by_script.get(key, 0.0) + total.spent_ns
    whole = sum(by_script.values())
    return {key for key, spent in by_script.items() if spent >= OWNED_SHARE_MIN * whole}


def _record(session: Session, look: PlanLook, slice_id: int) -> None:
    for table, rows in (
        ("statement_plan", look.plans),
        ("statement_trial", look.trials),
        ("supposed_index", look.supposed),
        ("counted_statement", look.counted),
        ("called_function", look.called),
        ("function_statement", look.nested),
        ("table_trigger", look.triggers),
        ("unusable_index", look.unusable),
        ("suspect", look.suspects),
        ("table_partition", look.partitions),
        ("table_statistics", look.statistics),
    ):
        session.recorder.add_rows(table, [asdict(row) for row in rows], slice_id=slice_id)
