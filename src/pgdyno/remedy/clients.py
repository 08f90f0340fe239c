"""The number of clients: more where too little comes to a server at the same time, fewer where they
mostly wait for each other."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
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
)
