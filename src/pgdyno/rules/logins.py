"""Connections that are opened and closed all the time."""

from __future__ import annotations

from pgdyno.dimension import fields_with
from pgdyno.facts.client_sessions import (
    SHORT_LIVED_MAX,
    Churn,
    churn,
    most_of,
    seen_sessions,
    transactions_per_connection,
)
from pgdyno.facts.situation import Situation
from pgdyno.numbers import counted, duration, figure, percent
from pgdyno.pooler import Ineffective, without_effect
from pgdyno.record.finding import Evidence, Skip
from pgdyno.record.latencies import ConnectKind
from pgdyno.record.sessionages import BOUNDS_S
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.connections import clients_stay

HERD_MIN = 50
HERD_FACTOR = 5.0
HERD_SHARE = 0.25
CHURN_MIN = 10.0
LOGIN_STORM_ADVICE = (
    "let a pooler keep the server's connections (PgBouncer, pgpool-II), and clients make theirs a"
    " few at a time, with a pause that grows and is random"
)


@rule(
    "login-storm",
    false_positives=(
        "the start of the clients within the period, as of a ramp; a pooler that is restarted on"
        " purpose"
    ),
)
def login_storm(s: Situation) -> Found | Cleared:
    """Login storm: many connections are made within a second, or so many that few transactions are
    done on each.

    The server starts a process for each, checks the role and fills its caches; while many do so at
    once, all others are slower, and clients that give up and try again make it worse.

    Trigger, either of:

    * ``HERD_MIN`` or more connections were made in one second, ``HERD_FACTOR`` times the average of
      the whole period, and at least ``HERD_SHARE`` of those that were open: a herd, as after a
      restart of an application or a pooler;
    * in a check, where clients cannot be asked: ``CHURN_MIN`` or more per second for each core, and
      no more than ``SHORT_LIVED_MAX`` transactions were done for each. For a load of pgdyno's own,
      the clients' own clock judges this ("connection per transaction").

    Thresholds: on a machine with 2 cores a connection took 3.2 ms of the server's CPU, 3.5 ms with
    its first statement, so that ten per second and core are 3 % of the cores; fewer do not matter.
    A herd of fifty keeps a core busy for 0.16 s. Calibrated by injection.
    """
    made = churn(s.run, s.slice_ids)
    if made is None:
        raise Skip("connections made were not recorded")
    open_ones = _open(s)
    each = s.throughput_tps * s.seconds / made.made if made.made else None
    evidence = _login_storm_evidence(s, made, open_ones, each)
    if is_herd(made, open_ones):
        sentence = (
            f"{figure(made.peak_per_s)} connections were made in one second, where"
            f" {figure(open_ones)} were open and {figure(made.per_s)} per second are made on"
            " average"
        )
        return _found(sentence, evidence)
    sentence = f"{figure(made.per_s)} connections are made per second"
    often = made.per_s >= CHURN_MIN * s.cores and each is not None and each <= SHORT_LIVED_MAX
    if s.is_observed and often and each is not None:
        return _found(f"{sentence}, one for {figure(each)} transactions", evidence)
    return Cleared(f"{sentence}, at most {figure(made.peak_per_s)} in one second", evidence)


def is_herd(made: Churn, open_ones: float) -> bool:
    """True if many connections were made at once."""
    return (
        made.peak_per_s >= HERD_MIN
        and made.peak_per_s >= HERD_FACTOR * made.per_s
        and made.peak_per_s >= HERD_SHARE * open_ones
    )


def _open(s: Situation) -> float:
    """Return the median number of connections to the database."""
    import numpy as np

    rows = s.run.series("metric_database", s.slice_ids)
    return float(np.median(rows["numbackends"])) if len(rows["at_ms"]) else 0.0


def _found(sentence: str, evidence: list[Evidence]) -> Found:
    return Found(
        sentence=sentence,
        removable_share=0.0,
        confidence=0.8,
        evidence=evidence,
        momentary=True,
        advice=LOGIN_STORM_ADVICE,
    )


def _login_storm_evidence(
    s: Situation, made: Churn, open_ones: float, each: float | None
) -> list[Evidence]:
    return [
        s.evidence(
            "connections made in the busiest second",
            made.peak_per_s,
            "per s",
            f"at least {HERD_MIN}, {HERD_FACTOR:g} times the average, and"
            f" {percent(HERD_SHARE)} of those open",
        ),
        s.evidence("connections made, on average", made.per_s, "per s"),
        s.evidence("connections open, median", open_ones, "count"),
        s.evidence("transactions per connection made", each, "count",
                   f"in a check at most {SHORT_LIVED_MAX:g}, with {CHURN_MIN:g} per s and core"),
        s.evidence("connections ended by an error", float(made.broken), "count"),
    ]  # fmt: skip


CONNECTING_SHARE = 0.15
_PHASES: dict[ConnectKind, str] = {
    "tcp": "connecting the socket",
    "tls": "TLS handshake",
    "auth": "authentication",
    "ready": "from authentication until ready",
}
RECONNECTING_ADVICE = (
    "keep connections open for many transactions: a pool in the application, or a pooler such as"
    " PgBouncer on the clients' side of the network"
)


@rule(
    "connection-per-transaction",
    of_clients=True,
    false_positives=(
        "a load that reconnects on purpose, to measure connecting itself; an application whose"
        " pool was only just filling"
    ),
)
def connection_per_transaction(s: Situation) -> Found | Cleared:
    """A connection for each transaction, or few: the time goes into connecting, not into work.

    Trigger: connecting takes at least ``CONNECTING_SHARE`` of the response time, and no more than
    ``SHORT_LIVED_MAX`` transactions are done for each connection made. The server starts a process
    for each connection, which checks the role and fills caches of its own, so the first statement
    on it takes longer too; that part is not counted here.

    Distinct from connections that were lost and made again, which are few, and from a wait for a
    pooled connection, which the clients measure by itself (``client_pool``).

    Threshold: that of a part of the latency budget that can be the limit. Calibrated by injection:
    4 clients that read a row on 2 cores; connecting for each transaction took half of the response
    time, and nothing where they kept their connections.
    """
    connecting_ms = s.budget.parts_ms.get("connecting", 0.0)
    share = s.budget.own_share("connecting")
    each = transactions_per_connection(s)
    evidence = _connection_per_transaction_evidence(s, share, each)
    of = f"{figure(connecting_ms)} of {figure(s.budget.response_ms)} ms"
    if share < CONNECTING_SHARE:
        return Cleared(f"connecting takes {of}", evidence, parts=("connecting",))
    if each is None or each > SHORT_LIVED_MAX:
        return Cleared(f"connecting takes {of}, but few connections were made", evidence)
    return Found(
        sentence=f"clients connect again for {_how_often(each)}, which takes {of}",
        parts=("connecting",),
        removable_share=1.0,
        confidence=0.9,
        evidence=evidence,
        advice=RECONNECTING_ADVICE,
    )


def _how_often(transactions: float) -> str:
    number = round(transactions)
    return "each transaction" if number <= 1 else f"every {number} transactions"


def _connection_per_transaction_evidence(
    s: Situation, share: float, each: float | None
) -> list[Evidence]:
    bar = f"at least {percent(CONNECTING_SHARE)}"
    evidence = [
        s.evidence("connecting / response time", share, "share", bar),
        s.evidence(
            "transactions per connection made", each, "count", f"at most {SHORT_LIVED_MAX:g}"
        ),
    ]
    for kind, words in _PHASES.items():
        phase = s.run.histogram(kind, s.slice_ids)
        if phase.count:
            evidence.append(s.evidence(f"{words}, mean", phase.mean / 1e6, "ms"))
    return evidence


STAY_MIN = 5


@rule(
    "unreaped-connections",
    false_positives="clients that stay connected on purpose and are used again soon",
)
def unreaped_connections(s: Situation) -> Found | Cleared:
    """Connections that are never reaped: a setting of the pooler that was to end idle ones has no
    effect as it is combined with others, in its version, or with clients that stay connected.

    Such settings are accepted without a word. pgpool-II ignored connection_life_time together with
    serialize_accept (in effect with child_life_time = 0) before 3.5.27, 3.6.23, 3.7.16, 4.0.11,
    4.1.4 and 4.2.0; in every version its time does not run while a client is attached.
    server_idle_timeout and server_lifetime of PgBouncer end no connection that a client of a
    session pool holds, nor the last min_pool_size.

    Trigger: such a setting is without effect, and at the end ``STAY_MIN`` or more connections have
    been idle for longer than it allows. A run that lasted less than that clears nothing: it says
    that the setting has no effect, as the warning before the run does.

    Threshold: the setting's own time, rounded up to one of the bounds of the recorded ages (1, 10,
    60 s, …). Five connections are no rest of a moment. Calibrated: 12 idle clients of pgpool-II
    with connection_life_time = 1 were all there after 7 s, and none of 12 that disconnect.

    Look-alikes: pools without any limit, or with one that is longer than the run, are the finding
    "idle connections", of which this is a cause.
    """
    void = _without_effect(s)
    if not void:
        evidence = [s.evidence("settings without effect on idle connections", 0, "count", "any")]
        return Cleared("no setting that ends idle connections is without effect", evidence)
    setting = void[0]
    limit_s = (setting.limit_ms or 0.0) / 1000
    bound_s = next((bound for bound in BOUNDS_S if bound >= limit_s), None)
    if bound_s is None or s.seconds < bound_s:
        raise Skip(f"the run is shorter than the limit; {setting.why}")
    stay = float(seen_sessions(s, bound_s).long_idle[-1])
    evidence = [
        s.evidence("setting without effect", setting.setting, ""),
        s.evidence("its time", limit_s, "s"),
        s.evidence(
            f"connections idle for {bound_s} s or longer", stay, "count", f"at least {STAY_MIN}"
        ),
    ]
    idle = f"{counted(stay, 'connection has', 'connections have')} been idle for"
    sentence = f"{idle} {duration(bound_s)} or longer, and {setting.why}"
    if stay < STAY_MIN:
        return Cleared(sentence, evidence)
    most = most_of(s, "idle")
    of = f"; most are of {most.name}" if most is not None else ""
    return Found(
        sentence=f"{sentence}{of}",
        removable_share=0.0,
        confidence=0.9,
        evidence=evidence,
        advice=setting.instead,
    )


def _without_effect(s: Situation) -> list[Ineffective]:
    """Return the settings in force that were to end idle connections and do not."""
    pooler = s.pooler
    if pooler is None:
        return []
    stay = clients_stay(fields_with(s.run.run.spec, s.change))
    found = without_effect(pooler.kind, pooler.settings, pooler.version, stay=stay)
    return [each for each in found if each.limit_ms is not None]
