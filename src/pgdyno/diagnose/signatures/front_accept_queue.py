"""Accept queue: the web server has as many connections of clients as it accepts, and leaves others
without an answer.

A connection beyond maxConnections of Tomcat is made by the kernel, so that its client is connected
and waits, for as long as nobody else disconnects; beyond acceptCount more of them, connecting takes
1, 3 or 7 seconds, or fails. Neither the application nor the database shows anything of it.

Trigger: the connections accepted are at least ``AT_LIMIT`` of the most, and in the second half of
the period most looks at the kernel's list have ``UNACCEPTED_MIN`` or more that wait.

Thresholds: those of a pooler's listen queue; calibrated by injection, 4 connections for 16 clients,
and 8192, which is Tomcat's own default.
"""

from __future__ import annotations

from math import isnan

from pgdyno.diagnose._front_pools import others_take_cores, room_for_all
from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.signatures.pooler_client_limit import AT_LIMIT, UNACCEPTED_MIN
from pgdyno.numbers import counted, figure, percent
from pgdyno.record.finding import Evidence, Skip

ADVICE = (
    "let the connector accept more connections (maxConnections of Tomcat), or close idle ones"
    " earlier (keepAliveTimeout, maxKeepAliveRequests)"
)


def examine(s: Situation) -> Found | Cleared:
    """Compare the connections of clients with the most, and look at the kernel's queue."""
    load = s.front_load
    if isnan(load.unaccepted):
        raise Skip("how many connections wait to be accepted was not recorded")
    evidence = _evidence(s)
    if load.clients < AT_LIMIT * load.clients_max or load.unaccepted < UNACCEPTED_MIN:
        return Cleared("the web server accepts the connections of all clients", evidence)
    share = load.unaccepted / (load.clients + load.unaccepted)
    proposals = room_for_all(s, s.loop)
    taken = not proposals and others_take_cores(s, room_for_all)
    return Found(
        sentence=(
            f"{counted(load.unaccepted, 'connection waits', 'connections wait')} to be accepted by"
            f" the web server, which has {figure(load.clients)} (maxConnections ="
            f" {figure(load.clients_max)}): neither it nor the database shows them"
            f"{', and other work takes the cores that they would need' if taken else ''}"
        ),
        share=share,
        liftable=share,
        confidence=0.9,
        evidence=evidence,
        about_to_fail=True,
        proposals=proposals,
        advice=ADVICE,
    )


def _evidence(s: Situation) -> list[Evidence]:
    load = s.front_load
    bar = f"at least {UNACCEPTED_MIN} in most looks of the second half"
    return [
        s.evidence("connections that wait to be accepted", load.unaccepted, "count", bar),
        s.evidence("connections accepted", load.clients, "count"),
        s.evidence(
            "maxConnections", load.clients_max, "count", f"at least {percent(AT_LIMIT)} in use"
        ),
    ]


SIGNATURE = Signature(
    id="front-accept-queue",
    false_positives="a limit kept low on purpose, so that clients wait in front of the web server",
    examine=examine,
    of_clients=True,
    of_refusals=True,
)
