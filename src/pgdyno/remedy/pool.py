"""The size of the client pool: more connections when clients queue for one, fewer when the server's
cores are oversubscribed."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
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
)
