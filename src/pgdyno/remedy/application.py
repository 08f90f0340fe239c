"""Changes of the application: its clients, its pools and its statements."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    # The number of clients: more where too little comes to a server at the same time, fewer where
    # they mostly wait for each other.
    Remedy(
        id="client-count",
        summary="change the number of clients that work at the same time",
        kind="client",
        clients=True,
        durability_class="D0",
        price=(
            "with more clients, the application must have so many transactions to do at the same"
            " time, and each client is a session of the server, unless they share a pool; with"
            " fewer, what else it has to do waits in the application, where the response time does"
            " not count it"
        ),
    ),
    # The size of the client pool: more connections when clients queue for one, fewer when the
    # server's cores are oversubscribed.
    Remedy(
        id="pool-size",
        summary="change the size of the client-side connection pool",
        kind="client",
        pools=True,
        durability_class="D0",
        price=(
            "each connection is a server process: about 5 to 10 MB of memory, one of"
            " max_connections, and one more session that can run at the same time; with a smaller"
            " pool clients wait in the application instead"
        ),
    ),
    # A pooler in front of the server, or its settings.
    Remedy(
        id="pooler",
        summary="let clients connect through a pooler, or change its settings",
        kind="client",
        durability_class="D0",
        price=(
            "one more process between clients and server, with its CPU time and its queue; in"
            " transaction mode sessions keep no state: session settings, advisory locks, LISTEN,"
            " temporary tables and, in older versions, prepared statements"
        ),
        keys=("pooler.*",),
    ),
    # The web front end that pgdyno started: the size of its pool, its connector, its driver.
    Remedy(
        id="front-pool",
        summary="change the size of the pool of connections within the web application",
        kind="client",
        durability_class="D0",
        price=(
            "each connection is a server process: about 5 to 10 MB of memory, one of"
            " max_connections, and one more session that can run at the same time"
        ),
        keys=("front.max_total", "front.max_wait", "front.pool"),
    ),
    Remedy(
        id="front-connector",
        summary="change the connector of the web server: its threads, the connections of clients",
        kind="client",
        durability_class="D0",
        price=(
            "each thread of the connector has a stack of its own (1 MB of address space) and is"
            " one more request at work in the application at the same time"
        ),
        keys=("front.threads", "front.connections", "front.keepalive_requests"),
    ),
    Remedy(
        id="front-machine",
        summary="change the virtual machine of the web application",
        kind="client",
        durability_class="D0",
        price="the application is started again; a larger heap takes memory of the machine",
        keys=("front.heap", "front.java"),
    ),
    # Changes of the application, tried with the scripts of the load.
    Remedy(
        id="update-last",
        summary="update a row that many wait for last in the transaction",
        kind="client",
        durability_class="D0",
        price=(
            "the application must be changed, for which a trial changes the load's scripts;"
            " transactions that keep the former order may run into deadlocks with those that do not"
        ),
        keys=("workload.update_last",),
        manual_lines=(
            "-- in the application: update the row just before COMMIT, after all other statements",
        ),
    ),
    Remedy(
        id="ingest",
        summary="bring rows in by another way, or commit more of them at a time",
        kind="client",
        durability_class="D0",
        bound="nothing is lost; what was not acknowledged must be sent again, a whole batch",
        price=(
            "rows become visible with their batch, and a row that fails takes its batch with it;"
            " where commits may be lost (synchronous_commit = off), each is a batch of rows"
        ),
        keys=("workload.ingest", "workload.batch"),
        manual_lines=("-- in the application: multi-row INSERT, a pipeline, or COPY",),
    ),
)
