"""Look at the plans of a load's statements, and at the time that changes would save.

The load does not run meanwhile. Its statements are explained in a session like its own, with values
that it has sent. Where that is permitted they are executed (EXPLAIN ANALYZE), all or those that
only read, and undone. Where all are, each candidate change is tried: settings of a session, the
protocol, and indexes, which are made in a transaction that is rolled back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from msgspec import Struct, field

from pgdyno.json_types import Row
from pgdyno.numbers import listed, size
from pgdyno.plans._candidates import (
    of_compiling,
    of_plan_cache,
    of_protocol,
    of_resets,
    of_spilling,
    of_unusable,
    of_workers,
)
from pgdyno.plans._effects import effects_of
from pgdyno.plans._functions import COUNTING, count_functions, table_triggers
from pgdyno.plans._index_use import first_keys, table_indexes, unusable_indexes
from pgdyno.plans._near_rows import finds_rows, near_values
from pgdyno.plans._nested import REPORTING, nested_statements
from pgdyno.plans._partitions import partitioned_wholes, table_partitions
from pgdyno.plans._session import CUSTOM_PLANS, Explained, LoadLikeSession, Refused
from pgdyno.plans._session import Executes as Executes
from pgdyno.plans._statistics import PageCounts, of_statistics, table_statistics
from pgdyno.plans._supposed import may_suppose, supposed
from pgdyno.plans._suspects import of_suspects, suspects
from pgdyno.plans._timing import (
    ROUNDS_MIN,
    TURNS,
    StatementTimes,
    timed_in_turn,
    timed_with,
    timed_within,
)
from pgdyno.plans.forms import fingerprint
from pgdyno.plans.tree import FIRST_KEYS, WHOLES, Plan, read_plan
from pgdyno.plans.unusual import resets
from pgdyno.plans.wanted_indexes import index_candidates
from pgdyno.record import (
    CalledFunction,
    CountedStatement,
    FunctionStatement,
    Place,
    StatementPlan,
    StatementTrial,
    SupposedIndex,
    Suspect,
    TablePartition,
    TableStatistics,
    TableTrigger,
    UnusableIndex,
    UnusualSetting,
)
from pgdyno.server import ConnInfo
from pgdyno.server.connecting.control import names_of_catalog
from pgdyno.server.local.owner import owner_has
from pgdyno.spec.change import Change
from pgdyno.spec.index_text import each_index, index_text
from pgdyno.spec.sql_text import relation

if TYPE_CHECKING:
    from pgdyno._engine import SampledStatement, SampledTransaction
    from pgdyno.server.connecting.control import Control

EXPLAIN_SHARE = 0.25
"""Part of the time for explaining."""
COUNT_SHARE = 0.15
"""Part of the time for counting functions; the trials have the rest."""
TRIAL_S_MIN = 0.08
PLAN_BYTES_MAX = 1 << 20
"""Longest plan that the run file keeps, as JSON."""
SAMPLES_PER_SCRIPT = 3
SIDES = 2
SINGLES_MAX = 6
"""Settings that are tried one by one; more are tried together first, and in halves."""
GAIN_MIN = 1.1
"""Ratio of the load's time in statements without and with a change from which on it is looked at
further."""


class PlanLook(Struct, frozen=True):
    """The rows of a look for the run file."""

    plans: list[StatementPlan] = field(default_factory=list)
    trials: list[StatementTrial] = field(default_factory=list)
    supposed: list[SupposedIndex] = field(default_factory=list)
    counted: list[CountedStatement] = field(default_factory=list)
    called: list[CalledFunction] = field(default_factory=list)
    nested: list[FunctionStatement] = field(default_factory=list)
    triggers: list[TableTrigger] = field(default_factory=list)
    unusable: list[UnusableIndex] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    partitions: list[TablePartition] = field(default_factory=list)
    statistics: list[TableStatistics] = field(default_factory=list)

    def read(self) -> list[tuple[Place, Plan]]:
        """Return the plans as trees, each with its statement."""
        return [
            (each.place, read_plan(json.loads(each.plan)))
            for each in self.plans
            if each.plan is not None
        ]


class LoadSample(Struct, frozen=True):
    """Transactions of a load, and how often its statements are executed."""

    transactions: Sequence[SampledTransaction]
    """The last few of each script, the oldest first."""
    per_s: Mapping[Place, float]
    protocol: str
    finding: Collection[Place] = frozenset()
    """Those that found rows in most of their executions, where they are to change some."""
    setup: str | None = None
    """SQL that the load's sessions execute first."""
    unusual: Sequence[UnusualSetting] = ()
    """Its settings that are not at their built-in value."""


def look_at_plans(
    conninfo: ConnInfo,
    load: LoadSample,
    *,
    executes: Executes,
    seconds_max: float,
    superuser: ConnInfo | None = None,
) -> PlanLook:
    """Look at the plans of the statements of ``load``, for about ``seconds_max``; those that it
    ``executes`` are undone. ``superuser`` connects to the server as such, where ``conninfo`` does
    as the role without rights (see ``server.local.owner``).

    Raises SetupError or psycopg.Error if the server cannot be asked.
    """
    began_s = time.monotonic()
    looking = _Looking(conninfo, load, executes, superuser)
    try:
        look = PlanLook()
        tries = executes == "everything"
        explain_ends_s = began_s + seconds_max * (EXPLAIN_SHARE if tries else 1.0)
        look.plans.extend(looking.plans(explain_ends_s))
        with names_of_catalog(looking.base.connection):
            _ask_catalogs(looking.base.connection, look)
        if tries:
            looking.count(look, began_s + seconds_max * (EXPLAIN_SHARE + COUNT_SHARE))
            looking.try_all(look, began_s + seconds_max)
        else:
            looking.suppose(look, began_s + seconds_max)
        return look
    except Refused as why:  # Of what is no statement of the load.
        raise psycopg.InternalError(str(why)) from why
    finally:
        looking.base.close()


class ExplainedLoad(Struct, frozen=True):
    """The plans of a load's statements for the values of some of its transactions."""

    transactions: Sequence[SampledTransaction]
    plans: Mapping[Place, Plan]


def explained_load(conninfo: ConnInfo, load: LoadSample, *, seconds_max: float) -> ExplainedLoad:
    """Explain the statements of ``load``, which may run meanwhile, for about ``seconds_max``.

    Raises SetupError or psycopg.Error if the server cannot be asked.
    """
    looking = _Looking(conninfo, load, "nothing")
    try:
        look = PlanLook([*looking.plans(time.monotonic() + seconds_max)])
    finally:
        looking.base.close()
    return ExplainedLoad(load.transactions, dict(look.read()))


def _ask_catalogs(conn: Control, look: PlanLook) -> None:
    """Add to ``look`` what the catalogs say of the tables in its plans."""
    placed = look.read()
    plans = [plan for _, plan in placed]
    look.triggers.extend(table_triggers(conn, plans))
    look.unusable.extend(unusable_indexes(conn, placed, table_indexes(conn, plans)))
    look.suspects.extend(suspects(conn, plans))
    look.partitions.extend(table_partitions(conn, plans))
    look.statistics.extend(table_statistics(conn, plans))


class _Looking:
    def __init__(
        self,
        conninfo: ConnInfo,
        load: LoadSample,
        executes: Executes,
        superuser: ConnInfo | None = None,
    ) -> None:
        self._conninfo, self._load, self._executes = conninfo, load, executes
        self._superuser = superuser
        self._by_script: dict[tuple[str, str], list[SampledTransaction]] = {}
        for each in load.transactions:
            self._by_script.setdefault((each["group"], each["script"]), []).append(each)
        self._tried = [
            each for mine in self._by_script.values() for each in mine[-SAMPLES_PER_SCRIPT:]
        ]
        self._forms: dict[Place, str] = {}
        self._spared: dict[Place, str] = {}
        self._replaced: dict[tuple[str, str], Mapping[str, str]] = {}
        self.base = self._session()

    def _session(self, change: Change | None = None) -> LoadLikeSession:
        change = change or Change()
        protocol = change.spec.get("load.protocol", self._load.protocol)
        return LoadLikeSession(
            self._conninfo,
            protocol,
            setup=self._load.setup,
            settings=change.settings,
            spared=self._spared,
            replaced=self._replaced,
        )

    def _privileged(self, settings: Mapping[str, str]) -> LoadLikeSession | None:
        """Return a session with settings that only superusers may set; None if it may not."""
        try:
            if self._superuser is None:
                return self._session(Change(settings=settings))
            with owner_has(self._superuser, settings):
                return self._session()
        except psycopg.errors.DatabaseError:
            return None

    def plans(self, ends_s: float) -> Iterator[StatementPlan]:
        """Explain a transaction of each script, with the plans that its statements have come to
        have by then."""
        for (group, script), mine in self._by_script.items():
            for number in range(CUSTOM_PLANS):
                if time.monotonic() < ends_s and self._load.protocol == "prepared":
                    self.base.explain(mine[number % len(mine)])
            last = mine[-1]
            statements = {each["position"]: each for each in last["statements"]}
            explained = self.base.explain(last)
            analyzed = {}
            if self._executes != "nothing":
                self._spare(mine, explained)
            if self._executes != "nothing" and time.monotonic() < ends_s:
                if self._executes == "everything":
                    self.base.execute(last)  # It reads into the buffers, and fills caches.
                analyzed = self.base.explain(last, executes=self._executes)
            if self._executes == "everything":
                analyzed = self._with_rows(last, analyzed, ends_s)
            unmade: set[str] = set()
            for position, (plan, lack) in explained.items():
                place = (group, script, position)
                if plan is not None:
                    self._forms[place] = fingerprint(read_plan(plan))
                better, why_not = analyzed.get(position, (None, ""))
                known = better or plan
                text = None if known is None else json.dumps(self._of_catalog(known))
                if text is not None and len(text) > PLAN_BYTES_MAX:
                    lack = f"it is too large to be kept: {size(len(text))} of JSON"
                    text = None
                yield StatementPlan(
                    *place,
                    is_generic=self.base.is_generic(statements[position]),
                    is_analyzed=better is not None
                    and text is not None
                    and (not unmade or unmade.isdisjoint(_tables(known))),
                    plan=text,
                    lack=lack or why_not,
                )
                if place in self._spared and self._executes == "everything":
                    unmade |= _tables(plan, changed=True)  # Statements behind do not find the rows.

    def _with_rows(
        self, transaction: SampledTransaction, analyzed: dict[int, Explained], ends_s: float
    ) -> dict[int, Explained]:
        """Return the plans of a transaction, executed again with values of rows that are there for
        statements that change rows in the load and found none."""
        script = transaction["group"], transaction["script"]
        for statement in transaction["statements"]:
            answer, _ = analyzed.get(statement["position"], (None, ""))
            if answer is None or (*script, statement["position"]) not in self._load.finding:
                continue
            plan, before = read_plan(self._of_catalog(answer)), self._replaced.get(script, {})
            for values in near_values(self.base.connection, plan, statement):
                self._replaced[script] = {**before, **values}
                again = self.base.explain(transaction, executes="everything")
                found, _ = again.get(statement["position"], (None, ""))
                if found is not None and finds_rows(read_plan(self._of_catalog(found))):
                    analyzed = again
                    break
                self._replaced[script] = before
                if time.monotonic() > ends_s:
                    return analyzed
        return analyzed

    def count(self, look: PlanLook, ends_s: float) -> None:
        """Count the functions that the statements call, and add them to ``look``."""
        if (counting := self._privileged(COUNTING)) is None:
            return
        try:
            counted, called = count_functions(counting, self._tried, ends_s)
        finally:
            counting.close()
        look.counted.extend(counted)
        look.called.extend(called)

    def _of_catalog(self, answer: Row) -> Row:
        """Add to a plan the tables and indexes that its partitions belong to, and the first keys of
        its indexes."""
        plan = read_plan(answer)
        with names_of_catalog(self.base.connection):
            wholes = partitioned_wholes(self.base.connection, plan)
            keys = first_keys(self.base.connection, plan)
        added = {WHOLES: wholes, FIRST_KEYS: keys}
        return {**answer, **{name: each for name, each in added.items() if each}}

    def _spare(
        self, transactions: Sequence[SampledTransaction], explained: Mapping[int, Explained]
    ) -> None:
        """Leave out the statements of a script that are not to be executed."""
        by_position = {each["position"]: each for t in transactions for each in t["statements"]}
        script = transactions[-1]["group"], transactions[-1]["script"]
        with names_of_catalog(self.base.connection):
            for position, statement in by_position.items():
                answer, _ = explained.get(position, (None, ""))
                if why := self._why_not(statement, answer):
                    self._spared[*script, position] = why

    def _why_not(self, statement: SampledStatement, answer: Row | None) -> str:
        """Return the reason why a statement is not to be executed; '' if it is."""
        plan = None if answer is None else read_plan(answer)
        if self._executes == "reads" and plan is not None and not plan.only_reads:
            return "it changes or locks rows"
        text = statement["parameterized"] or statement["text"]
        found = effects_of(self.base.connection, text, plan, answer)
        return f"no rollback undoes what {listed(found)} may do" if found else ""

    def try_all(self, look: PlanLook, ends_s: float) -> None:
        """Try the candidates, and add the trials to ``look``."""
        plans = [plan for _, plan in look.read()]
        if not plans:
            return
        nested = self._nested(look, ends_s) if look.called else []
        unusual = {each.name: each for each in self._load.unusual if each.may_set}
        is_few = len(unusual) <= SINGLES_MAX
        compiling, others = of_resets(unusual.values() if is_few else (), plans)
        # Where there is no time for all, the last are not tried.
        changes = [
            *of_compiling(unusual, plans),
            *compiling,
            *of_protocol(self._load.protocol),
            *of_plan_cache(
                unusual,
                protocol=self._load.protocol,
                has_parameters=any(
                    each["parameters"] for t in self._tried for each in t["statements"]
                ),
                is_generic=any(each.is_generic for each in look.plans),
            ),
            *of_spilling([*plans, *nested], is_default="work_mem" not in unusual),
            *of_workers(plans),
            *self._indexes([*plans, *nested]),
            *of_unusable(look.unusable),
            *others,
            *of_suspects(look.suspects),
            *of_statistics(plans, look.statistics),
        ]
        later = 0 if is_few else SINGLES_MAX
        self._fit_samples((ends_s - time.monotonic()) / max(1, len(changes) + later))
        for number, change in enumerate(changes):
            self._add(look, change, ends_s, len(changes) - number + later)
        if not is_few:
            self._halve(look, [*unusual.values()], ends_s)

    def suppose(self, look: PlanLook, ends_s: float) -> None:
        """Ask for the costs with the indexes to try, and add them to ``look``."""
        schema = may_suppose(self.base.connection)
        if schema is None:
            return
        for change in self._indexes([plan for _, plan in look.read()]):
            if time.monotonic() > ends_s:
                return
            session = self._session()
            try:
                last = [mine[-1] for mine in self._by_script.values()]
                look.supposed.extend(supposed(session, schema, change, last))
            finally:
                session.close()

    def _nested(self, look: PlanLook, ends_s: float) -> list[Plan]:
        """Return the plans of statements within functions, from a quarter of the time that is left;
        add these statements to ``look``, and the time that the functions take without them."""
        if (reporting := self._privileged(REPORTING)) is None:
            return []
        try:
            found = nested_statements(reporting, self._tried, (3 * time.monotonic() + ends_s) / 4)
        finally:
            reporting.close()
        look.nested.extend(found.rows())
        look.called[:] = found.with_own(look.called)
        return found.plans()

    def _fit_samples(self, seconds: float) -> None:
        """Try changes with one transaction of each script, where ``seconds`` are too few for rounds
        with several."""
        began_s = time.monotonic()
        for transaction in self._tried:
            self.base.execute(transaction)
        if SIDES * (1 + ROUNDS_MIN) * (time.monotonic() - began_s) > seconds:
            self._tried = [mine[-1] for mine in self._by_script.values()]

    def _indexes(self, plans: Sequence[Plan]) -> list[Change]:
        with names_of_catalog(self.base.connection):
            return index_candidates(self.base.connection, plans)

    def _halve(self, look: PlanLook, settings: Sequence[UnusualSetting], ends_s: float) -> None:
        """Try each setting's reset; of many, those of a half only if the half gains."""
        if len(settings) <= SINGLES_MAX:
            for number, each in enumerate(settings):
                self._add(look, resets([each]), ends_s, len(settings) - number)
            return
        middle = len(settings) // 2
        for half in (settings[:middle], settings[middle:]):
            trial = self._tried_change(resets(half), ends_s, 2 + SINGLES_MAX)
            if trial is not None and self._gain(trial) >= GAIN_MIN:
                self._halve(look, half, ends_s)
            elif trial is not None:
                look.trials.extend(trial)

    def _add(self, look: PlanLook, change: Change, ends_s: float, left: int) -> None:
        trial = self._tried_change(change, ends_s, left)
        look.trials.extend(trial or ())

    def _tried_change(
        self, change: Change, ends_s: float, left: int
    ) -> list[StatementTrial] | None:
        """Try a change within its part of the time that is left; None if there is none, or the
        server refuses it."""
        left_s = ends_s - time.monotonic()
        if left_s < TRIAL_S_MIN:
            return None
        seconds = max(TRIAL_S_MIN, left_s / left)
        try:
            if change.indexes or change.sql:
                return self._within(change, seconds)
            if not change.spec:
                return self._with(change, seconds)
            other = self._session(change)
        except (Refused, psycopg.errors.DatabaseError):
            return None
        try:
            times = timed_in_turn(self.base, other, self._tried, seconds)
            return _trials(change, times, self._replanned(other))
        finally:
            other.close()

    def _with(self, change: Change, seconds: float) -> list[StatementTrial]:
        """Try a change of the session's settings."""
        times = timed_with(self.base, change.settings, self._tried, seconds)
        with self.base.changed(change.settings):
            replanned = self._replanned(self.base)
        return _trials(change, times, replanned)

    def _within(self, change: Change, seconds: float) -> list[StatementTrial]:
        """Try a change of the database in a transaction, which undoes it."""
        replanned: frozenset[Place] | None = None
        counts = PageCounts(self.base.connection)

        @contextmanager
        def made() -> Iterator[None]:
            nonlocal replanned
            with self.base.undone():
                for table, text in each_index(change.indexes):
                    index = index_text(text)
                    for statement in index.extension_statements:
                        self.base.run(statement)
                    self.base.run(f"create index on {relation(table)} {index.sql}")
                for statement in change.sql.get("make", ()):
                    self.base.run(statement)
                if replanned is None:  # It is made several times.
                    replanned = self._replanned(self.base)
                yield
            counts.put_back()  # For the plans of the next turn without it.

        turns_max = TURNS if counts.may_put_back else 1
        try:
            times = timed_within(self.base, made, self._tried, seconds, turns_max=turns_max)
        finally:
            counts.put_back()
        return _trials(change, times, replanned or frozenset())

    def _replanned(self, session: LoadLikeSession) -> frozenset[Place]:
        """Return the statements whose plan in ``session`` has another form."""
        found = set()
        for (group, script), mine in self._by_script.items():
            for position, (plan, _) in session.explain(mine[-1]).items():
                place = (group, script, position)
                form = self._forms.get(place)
                if plan is not None and form not in (None, fingerprint(read_plan(plan))):
                    found.add(place)
        return frozenset(found)

    def _gain(self, trials: Sequence[StatementTrial]) -> float:
        """Return the ratio of the load's time in statements without and with a change."""
        per_s = self._load.per_s
        whole = sum(per_s.get(each.place, 0.0) * each.ms for each in trials)
        changed = sum(per_s.get(each.place, 0.0) * each.changed_ms for each in trials)
        return whole / changed if changed > 0 else 1.0


def _tables(answer: Row | None, *, changed: bool = False) -> set[str]:
    """Return the tables in a plan; if ``changed``, those alone of which it changes rows."""
    nodes = () if answer is None else read_plan(answer).nodes()
    return {node.relation for node in nodes if node.kind == "ModifyTable" or not changed}


def _trials(
    change: Change, times: Sequence[StatementTimes], replanned: frozenset[Place]
) -> list[StatementTrial]:
    text = json.dumps(change.to_json())
    return [
        StatementTrial(
            *each.place,
            change=text,
            runs=each.runs,
            ms=each.ms,
            changed_ms=each.changed_ms,
            log_error=each.log_error,
            is_replanned=each.place in replanned,
        )
        for each in times
    ]
