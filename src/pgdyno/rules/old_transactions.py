"""Transactions that stay open: they hold locks, and keep vacuum from removing rows."""

from __future__ import annotations

from pgdyno.facts.budget import Part
from pgdyno.facts.holders import KEPT_S_MIN, KEPT_SHARE, XminHolder, last_holder
from pgdyno.facts.sight import Sight, measured
from pgdyno.facts.situation import Situation
from pgdyno.json_types import Row
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.record.finding import Evidence, Skip
from pgdyno.rules._bloat import DEAD_ROWS_MIN, Bloat, bloat, bloat_evidence, cost_in_words
from pgdyno.rules._lock_chains import chain_advice, chain_evidence, chain_of, chain_words
from pgdyno.rules._queues import (
    FOREIGN_ADVICE,
    THINK_MS,
    Queues,
    cleared,
    evidence,
    holder_of,
    matters,
    queues,
    quoted,
    think_ms,
)
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import literal

PAUSE_SHARE = 0.5
POOL_SHARE = 0.15
_OF_CROWD: tuple[Part, ...] = ("pool wait", "client", "pause")


@rule(
    "idle-in-transaction",
    false_positives="scripts that sleep within a transaction and stand for a load that does not",
)
def idle_in_transaction(s: Situation) -> Found | Cleared:
    """Idle in transaction: clients pause between the statements of a transaction.

    While they do, they hold what they have locked, their connection, and the rows that vacuum could
    otherwise remove. Where sessions wait for their locks, that is a queue of its own kind: the
    remedy is not fewer writers but shorter transactions.

    Trigger, either of:

    * at least ``WAITING_SHARE`` of the client sessions in a transaction, and at least
      ``WAITING_MIN`` on average, wait for locks of sessions that are idle in their transaction (see
      ``_queues``);
    * clients pause for at least ``PAUSE_SHARE`` of the time that transactions take, and wait for
      connections for at least ``POOL_SHARE`` of the response time.

    Pauses are measured by the client's own clock, so that the time of round trips is not counted,
    and the server must have seen as large a part of the sessions wait for their client in a
    transaction: without a transaction block a session that pauses holds nothing but its connection.
    Threshold of pauses: half, where a connection is more often idle than at work; calibrated by
    injection, transactions that sleep for 16 ms between two statements.
    """
    found = queues(s, "idle")
    shown = [*evidence(s, found, "locks of idle sessions"), *_pause_evidence(s, found)]
    blocks, crowds = matters(s, found), holds_connections(s)
    parts: tuple[Part, ...] = found.parts if blocks else ()
    share = found.own_share if blocks else None
    if crowds:
        parts += _OF_CROWD
        share = None if share is None else share + s.budget.share(*_OF_CROWD)
    if not parts:
        return Cleared(cleared(s, found, "locks of sessions that are idle in a transaction"), shown)
    chain = chain_of(s, found) if blocks else None
    advice = _advice(s, found)
    return Found(
        sentence=_sentence(s, found, blocks=blocks, crowds=crowds)
        + (chain_words(s, chain) if chain is not None else _after(found) if blocks else ""),
        parts=parts,
        share=share,
        removable_share=1.0,
        confidence=0.8,
        evidence=shown if chain is None else [*shown, *chain_evidence(s, chain)],
        advice=advice if chain is None else f"{advice}; {chain_advice(chain)}",
    )


def holds_connections(s: Situation) -> bool:
    """True if clients wait for connections that are held while others pause in a transaction."""
    paused = min(_pauses(s), s.part("client"))
    return paused >= PAUSE_SHARE and s.budget.own_share("pool wait") >= POOL_SHARE


def _pauses(s: Situation) -> float:
    """Part of the service time for which clients pause; 0 if that is the generator's lateness."""
    if think_ms(s) < THINK_MS or s.budget.service_ms <= 0:
        return 0.0
    return min(1.0, think_ms(s) / s.budget.service_ms)


def _sentence(s: Situation, found: Queues, *, blocks: bool, crowds: bool) -> str:
    prepared = found.looks and found.looks[0].blocker_state == "prepared"
    holder = "of a prepared transaction" if prepared else "of clients that pause in a transaction"
    if _is_foreign(s, found):
        holder = "of a session that is not of this load and pauses in a transaction"
    waiting = f"{figure(found.sessions)} of {figure(s.sessions_at_work)} sessions"
    paused = f"clients pause for {percent(_pauses(s))} of the time that transactions take"
    if blocks and crowds:
        return f"{waiting} wait for locks {holder}, and others for their connections"
    if crowds:
        return f"{paused}, and hold connections that others wait for"
    return f"{waiting} in a transaction wait for locks {holder}"


def _after(found: Queues) -> str:
    """Return the last statement of the session that holds the locks, as a clause."""
    prepared = found.looks and found.looks[0].blocker_state == "prepared"
    statement = quoted(found.blocker)
    return f", after: {statement}" if statement and not prepared else ""


def _is_foreign(s: Situation, found: Queues) -> bool:
    """True if most wait for a session that is not of the load, and not prepared."""
    prepared = found.looks and found.looks[0].blocker_state == "prepared"
    return not prepared and holder_of(s, found).statement is not None


def _pause_evidence(s: Situation, found: Queues) -> list[Evidence]:
    shown = [
        s.evidence(
            "pauses of clients / time of transactions",
            _pauses(s),
            "share",
            f"at least {percent(PAUSE_SHARE)} with a wait for connections",
        ),
        s.evidence("pause of a client in a transaction", think_ms(s), "ms"),
        s.evidence(
            "wait for a connection / response time",
            s.budget.own_share("pool wait"),
            "share",
            f"at least {percent(POOL_SHARE)}",
        ),
        s.evidence(
            "sessions waiting for their client / sessions in a transaction",
            s.part("client"),
            "share",
            f"at least {percent(PAUSE_SHARE)} with a wait for connections",
        ),
    ]
    if found.looks:
        idle_ms = found.blocker_ms("state")
        shown.append(s.evidence("holder idle for, when seen, on average", idle_ms, "ms"))
    return shown


def _advice(s: Situation, found: Queues) -> str:
    if _is_foreign(s, found):
        return FOREIGN_ADVICE
    if found.looks and found.looks[0].blocker_state == "prepared":
        return "commit or roll back the prepared transaction (pg_prepared_xacts lists them)"
    return (
        "do what takes the client's time before the transaction or after it; a limit for those that"
        " forget to commit is idle_in_transaction_session_timeout"
    )


HELD_S_MAX = 300.0
PERIOD_S_MIN = 5.0


@rule(
    "prepared-transactions",
    false_positives="a coordinator that is being restored and will end it",
)
def prepared_transactions(s: Situation) -> Found | Cleared:
    """Prepared transactions that nobody ends: they keep their locks and hold back vacuum for ever.

    Trigger: a prepared transaction is older than ``HELD_S_MAX``, or the same one was the oldest at
    each look over a period of at least ``PERIOD_S_MIN``.

    Thresholds: five minutes is what the author of check_postgres suggests for servers that use
    prepared transactions (its own default of a second finds every one); a two-phase commit ends in
    milliseconds, so one that is there for a whole run was forgotten or its coordinator has failed.
    What it costs by holding back vacuum is the finding "xmin-pinned".
    """
    rows = s.run.series("metric_prepared", s.slice_ids)
    if not len(rows["at_ms"]):
        raise Skip("prepared transactions were not recorded")
    gids = [str(gid) if gid is not None else None for gid in rows["gid"]]
    gid, number = gids[-1], float(rows["count"][-1])
    if gid is None:
        none = s.evidence("prepared transactions", number, "count")
        return Cleared("there are no prepared transactions", [none])
    held_s = float(rows["held_ms"][-1]) / 1000
    evidence = [
        s.evidence("prepared transactions", number, "count"),
        s.evidence("age of the oldest", held_s, "s", f"at least {duration(HELD_S_MAX)}, or always"),
        s.evidence("age of its transaction ID", float(rows["xid_age"][-1]), "transactions"),
    ]
    always = len(gids) > 1 and set(gids) == {gid} and s.seconds >= PERIOD_S_MIN
    if held_s < HELD_S_MAX and not always:
        return Cleared(f"the oldest prepared transaction is {duration(held_s)} old", evidence)
    others = f", the oldest of {figure(number)}" if number > 1 else ""
    return Found(
        sentence=(
            f'the prepared transaction "{gid}" has been open for {duration(held_s)}{others}; it'
            " keeps its locks and holds back vacuum until it is ended, also over a restart"
        ),
        removable_share=0.0,
        confidence=0.9 if held_s >= HELD_S_MAX else 0.7,
        evidence=evidence,
        advice=(
            "in its database, ask the transaction's coordinator, and then COMMIT PREPARED"
            f" {literal(gid)} or ROLLBACK PREPARED {literal(gid)}; max_prepared_transactions = 0"
            " where none are wanted"
        ),
    )


AGE_MAX = 50_000_000
LIFTABLE = 0.9
"""Versions that are there already go only bit by bit."""
_ADVICE = {
    "backend": (
        "end the transaction, or its session with pg_terminate_backend({name}); limit such with"
        " idle_in_transaction_session_timeout, from version 17 with transaction_timeout"
    ),
    "prepared": "COMMIT PREPARED or ROLLBACK PREPARED {literal}",
    "slot": (
        "let its consumer go on, or, if there is none any more, drop it:"
        " SELECT pg_drop_replication_slot({literal})"
    ),
    "standby": (
        "end long queries on the standby, or set hot_standby_feedback = off there and"
        " max_standby_streaming_delay to what queries may delay replay"
    ),
}


@rule(
    "xmin-pinned",
    false_positives=(
        "a backup or a report that is to last this long and ends soon; tables without updates and"
        " deletes, to which it does nothing; a throughput that falls for another reason meanwhile"
    ),
)
def xmin_pinned(s: Situation) -> Found | Cleared:
    """Old xmin: one transaction, slot or standby keeps dead rows from being removed.

    Trigger: the same holder kept one xmin (for ``KEPT_SHARE`` of the period, and ``KEPT_S_MIN``)
    while at least ``DEAD_ROWS_MIN`` rows were updated or deleted; or its xmin is ``AGE_MAX`` old.

    Thresholds: 50 million transactions are db-triage's alarm; the times are calibrated by injection
    (see ``facts.holders``). What it costs now is measured, not assumed: its share is what the
    growth of page accesses explains (see ``_bloat``).

    Look-alikes: where autovacuum is too slow, nobody but its own ANALYZE keeps an xmin; a logical
    slot's catalog_xmin keeps rows of system catalogs only, and is no holder here. Versions: all;
    PostgreSQL has no counter of rows that vacuum could not remove.
    """
    holder = last_holder(s)
    if holder is None:
        nobody = s.evidence("holder of the oldest xmin", "none", "")
        return Cleared("nothing held back vacuum at the end", [nobody])
    seen = bloat(s)
    evidence = [*_evidence(s, holder), *bloat_evidence(s, seen)]
    if not _holds_back(s, holder, seen):
        return Cleared(
            f"the oldest xmin is {figure(holder.age)} transactions old, held by {holder.in_words}"
            f" for {duration(holder.seen_s)}",
            evidence,
        )
    return Found(
        sentence=(
            f"{holder.in_words} has held back vacuum for {holder.held_in_words}: none of the rows"
            f" made dead since, {figure(seen.rows_dead_s)}/s, can be removed{cost_in_words(seen)}"
        ),
        parts=seen.parts,
        share=seen.share,
        removable_share=LIFTABLE,
        confidence=0.9 if seen.share else 0.7,
        evidence=evidence,
        causes=("prepared-transactions",) if holder.kind == "prepared" else (),
        advice=holder_advice(holder),
    )


def holder_advice(holder: XminHolder) -> str:
    """Return advice to have an xmin let go of; '' for a kind that is not known."""
    return _ADVICE.get(holder.kind, "").format(name=holder.name, literal=literal(holder.name))


def _holds_back(s: Situation, holder: XminHolder, seen: Bloat) -> bool:
    if holder.age >= AGE_MAX:
        return True
    return holder.holds_back(s) and seen.rows_dead >= DEAD_ROWS_MIN


def _evidence(s: Situation, holder: XminHolder) -> list[Evidence]:
    bar = f"at least {percent(KEPT_SHARE)} of the time, and {duration(KEPT_S_MIN)}"
    return [
        s.evidence("holder of the oldest xmin", holder.in_words, ""),
        s.evidence("age of that xmin", holder.age, "transactions", f"at least {AGE_MAX:,}, or"),
        s.evidence("held without a break for", holder.seen_s, "s", bar),
        *(
            s.evidence("age of its transaction", seconds, "s")
            for seconds in [holder.transaction_s]
            if seconds is not None
        ),
    ]


IDLE_S_MIN = 15.0
LONG_S = 300.0
SHOWN = 5


@rule(
    "forgotten-transactions",
    looks=("old_transaction",),
    covered_by=("idle-in-transaction",),
    false_positives="somebody at a prompt who thinks; a two-phase commit that waits for others",
)
def forgotten_transactions(sight: Sight) -> Found | Cleared:
    """Sessions that are idle in a transaction: they keep locks, and rows that vacuum could remove.

    Trigger: a session has been idle in its transaction for ``IDLE_S_MIN``, at the end of the check:
    for most of the time for which a check watches. Clients whose round trips are slow pause for
    less than a second. It costs something from ``LONG_S`` on, where pg_gather and db-triage warn;
    before, it is minor.
    """
    idle = [
        row
        for row in sight.rows("old_transaction")
        if row["state"].startswith("idle in transaction") and row["state_s"] >= IDLE_S_MIN
    ]
    if not idle:
        return Cleared("no session is idle in a transaction for long")
    worst = max(idle, key=lambda row: row["state_s"])
    number = counted(len(idle), "session is", "sessions are")
    return Found(
        sentence=(
            f"{number} idle in a transaction, process {worst['pid']} ({_whose(worst)}) for"
            f" {duration(worst['state_s'])}: it keeps its locks, and vacuum cannot remove newer"
            " dead rows"
        ),
        severity="costs" if worst["state_s"] >= LONG_S else "minor",
        confidence=0.85,
        evidence=[
            measured(f"process {row['pid']} idle for", row["state_s"], "s",
                     f"at least {duration(IDLE_S_MIN)}")
            for row in idle[:SHOWN]
        ],
        advice=(
            "end it after a look at what it is; idle_in_transaction_session_timeout for the role"
            " ends the next one"
        ),
        commands=[f"SELECT pg_terminate_backend({row['pid']})" for row in idle[:SHOWN]],
    )  # fmt: skip


def _whose(row: Row) -> str:
    return " of ".join(filter(None, (row["application"], row["role"])))


AGE_S_MIN = 3600.0


@rule(
    "old-transactions",
    looks=("old_transaction",),
    covered_by=("xmin-pinned",),
    false_positives="a dump, a report or a load of data that has to take that long",
)
def old_transactions(sight: Sight) -> Found | Cleared:
    """Transactions that have been at work for hours: vacuum cannot remove what died since they
    began.

    Trigger: a transaction is ``AGE_S_MIN`` old, not idle, and holds a snapshot or a transaction ID.
    Threshold: db-triage alarms at an hour. It is minor: dumps and reports take that long.
    """
    old = [
        row
        for row in sight.rows("old_transaction")
        if not row["state"].startswith("idle") and row["transaction_s"] >= AGE_S_MIN
        and row["xmin_age"] is not None
    ]  # fmt: skip
    if not old:
        return Cleared("no transaction has been at work for an hour")
    worst = old[0]
    number = counted(len(old), "transaction has", "transactions have")
    return Found(
        sentence=(
            f"{number} been at work for more than {duration(AGE_S_MIN)}, process {worst['pid']}"
            f" ({_whose(worst)}) for {duration(worst['transaction_s'])}: vacuum cannot remove rows"
            " that died since"
        ),
        severity="minor",
        confidence=0.8,
        evidence=[
            measured(f"transaction of process {row['pid']}", row["transaction_s"], "s",
                     f"at least {duration(AGE_S_MIN)}")
            for row in old[:SHOWN]
        ],
        advice="see what it does; a standby can take dumps and reports",
    )  # fmt: skip
