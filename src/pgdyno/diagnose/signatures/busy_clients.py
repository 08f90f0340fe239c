"""Busy clients: transactions of an open loop wait for a free client, and too few clients is why.

Trigger: a group's rate is not held, or held through a queue, and its clients are busy with
transactions nearly all the time (or, with ``when_busy = "skip"``, transactions were skipped because
they were). Each client is busy for the response time r without the queue, so that N of them carry
at most N / r transactions per second (J. D. C. Little, "A proof for the queuing formula L = λ W",
Operations Research 9, 1961).

That is a limit of the clients only if more of them would get more done: the server's cores have to
be idle, and no wait may take ``DOMINATES`` of the time in service, for more clients would wait for
the same. Otherwise what makes r long is the limit, by its own finding. The network and the client's
pauses are no such waits: more clients overlap them. Where clients wait for pooled connections, the
pool is the limit (``client_pool``).

Thresholds: nearly all is ``BUSY_SHARE`` (see ``facts.groups``), which leaves what passes between
two transactions; half is what a single wait needs to be the largest.
"""

from __future__ import annotations

import math

from pgdyno.diagnose._budget import CLIENT_PARTS, Part
from pgdyno.diagnose._held import queues_for_client
from pgdyno.diagnose._more_clients import clients_for_rate, count_for_rate, ratio_of_count
from pgdyno.diagnose._pools import WORTHWHILE_RATIO
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose._verdict import part_words
from pgdyno.diagnose.facts.groups import BUSY_SHARE, GroupAccount
from pgdyno.diagnose.facts.sessions import SPARE_SHARE, idle_evidence
from pgdyno.numbers import figure, percent
from pgdyno.record.finding import Evidence

DOMINATES = 0.5
"""Part of the time in service that makes a wait the limit."""
POOL_SHARE = 0.2
"""Part of the response time without the queue for a client from which on the pool is asked."""
_OVERLAPPED: tuple[Part, ...] = ("running", "between", "client", "pause", "late", "sleep")
"""Parts of the service that more clients spend side by side, as long as cores are idle."""


def examine(s: Situation) -> Found | Cleared:
    """Examine the open loop that is farthest from its rate."""
    rates = [account for account in s.accounts if account.asked_tps and account.ledger.done]
    if not rates:
        return Cleared("no client group has a rate", [s.evidence("open loops", 0, "count")])
    account = max(rates, key=_shortfall)
    evidence = _evidence(s, account)
    if not _waits_for_clients(s, account):
        share = percent(min(1.0, account.busy_share))
        return Cleared(f"clients are busy {share} of the time", evidence, parts=("queue",))
    busy = _busy_words(s, account)
    if why := _why_no_more(s, account):
        return Cleared(f"{busy}; {why}", evidence)
    lost = account.ledger.skipped / account.ledger.intended
    return Found(
        sentence=f"{busy}{_idle_words(s)}",
        parts=("queue",),
        share=max(s.budget.share("queue"), lost),
        liftable=1.0,
        confidence=0.9 if s.cpu_if_recorded is not None else 0.6,
        evidence=evidence,
        proposals=clients_for_rate(s, account),
        advice=_advice(account),
    )


def _shortfall(account: GroupAccount) -> float:
    """Return the part of the due transactions that was not done."""
    return 1.0 - account.done_tps / account.asked_tps if account.asked_tps else 0.0


def _waits_for_clients(s: Situation, account: GroupAccount) -> bool:
    queued = account.busy_share >= BUSY_SHARE and queues_for_client(s, account.name)
    return account.wants_free_clients or queued


def _busy_words(s: Situation, account: GroupAccount) -> str:
    """Return "arrivals of 2,000/s wait because all 4 clients are busy: …"."""
    one = account.clients == 1
    who = "the client is" if one else f"all {account.clients:,} clients are"
    happens = "are skipped" if account.skips_when_busy else "wait"
    carry = "carries" if one else "carry"
    return (
        f"transactions due at {figure(account.asked_tps or 0.0)} per second {happens} because"
        f" {who} busy: with {figure(account.busy_ms)} ms for each, {'it' if one else 'they'}"
        f" {carry} at most {figure(account.carried_tps_max)} tps"
    )


def _why_no_more(s: Situation, account: GroupAccount) -> str:
    """Return why more clients would not do more; '' if they would."""
    group = s.group(account.name)
    if group.pool_max is not None and group.pool_wait_ms >= POOL_SHARE * account.busy_ms:
        return "more of them would wait for pooled connections as well"
    cpu = s.cpu_if_recorded
    if cpu is not None and cpu.idle_share < SPARE_SHARE:
        return f"the server's cores are {percent(cpu.busy_share)} busy, with none for more clients"
    part, share = _largest_wait(s)
    if share >= DOMINATES:
        return f"{percent(share)} of that time is {part_words(part)}, for which more would wait too"
    count = count_for_rate(s, account)
    if count <= account.clients:
        return "max_connections leaves no sessions for more of them"
    if ratio_of_count(s, account, count) < WORTHWHILE_RATIO:
        return "more of them are not predicted to do more"
    return ""


def _largest_wait(s: Situation) -> tuple[Part, float]:
    """Return the largest wait of the service, and its share of it."""
    waits: list[Part] = [
        part for part in s.budget.parts_ms if part not in (*CLIENT_PARTS, *_OVERLAPPED)
    ]
    if not waits:
        return "other", 0.0
    largest = max(waits, key=lambda part: s.budget.parts_ms[part])
    return largest, s.budget.service_share(largest)


def _idle_words(s: Situation) -> str:
    cpu = s.cpu_if_recorded
    return "" if cpu is None else f", while the server's machine is {percent(cpu.idle_share)} idle"


def _advice(account: GroupAccount) -> str:
    asked = account.asked_tps or 0.0
    needed = asked * account.busy_ms / 1000
    least = math.floor(needed) + 1
    return (
        f"at this response time {figure(asked)} tps keep {figure(needed)} clients busy on average:"
        f" at least {least} are needed, and more where arrivals come together"
    )


def _evidence(s: Situation, account: GroupAccount) -> list[Evidence]:
    part, share = _largest_wait(s)
    return [
        s.evidence("intended rate", account.asked_tps, "tps"),
        s.evidence("reached rate", account.done_tps, "tps"),
        s.evidence("clients", account.clients, "count"),
        s.evidence("a client's time for a transaction", account.busy_ms, "ms"),
        s.evidence("most that they carry, clients / time", account.carried_tps_max, "tps"),
        s.evidence(
            "clients' time in transactions",
            account.busy_share,
            "share",
            f"at least {percent(BUSY_SHARE)}, or skipped when busy",
        ),
        s.evidence(
            f"largest wait ({part_words(part)}) / service",
            share,
            "share",
            f"less than {percent(DOMINATES)}",
        ),
        *idle_evidence(s),
    ]


SIGNATURE = Signature(
    id="busy-clients",
    false_positives=(
        "few clients on purpose, as an application with so many threads would have; a load"
        " generator that is the limit itself"
    ),
    examine=examine,
    of_clients=True,
)
