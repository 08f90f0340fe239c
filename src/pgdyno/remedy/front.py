"""The web front end that pgdyno started: the size of its pool, its connector, its driver."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
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
)
