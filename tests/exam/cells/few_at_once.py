"""Few transactions at once: the clients' pool, a pooler's, a link with a delay, the clients' own
work, one client.
"""

from __future__ import annotations

from exam.injectors import pgbouncer, slow_link
from exam.model import Cause, Cell, Proof
from exam.proofs import statement_ms
from exam.scene import Scene


def _client_pool(scene: Scene) -> Proof:
    backends = scene.sessions(lambda seen: True)
    text = f"pg_stat_activity: {backends:.1f} sessions for {scene.clients} clients"
    return Proof(text, backends < scene.clients / 2, 1 - backends / scene.clients)


def _pgbouncer(scene: Scene) -> Proof:
    """The console has no past, so the server's side is counted: few sessions, busy all the time."""
    sessions = scene.sessions(lambda seen: True)
    busy = scene.sessions(lambda seen: seen.state != "idle")
    (totals,) = (
        row for row in scene.injected["pooler"].show("stats") if row["database"] == "pgdyno"
    )
    waited_ms = int(totals["total_wait_time"]) / 1000 / max(1, int(totals["total_xact_count"]))
    text = (
        f"PgBouncer: {waited_ms:.1f} ms of wait for each transaction; {sessions:.1f} sessions"
        f" for {scene.clients} clients"
    )
    return Proof(text, waited_ms > 1 and busy >= 1, 1 - sessions / scene.clients)


def _round_trip(scene: Scene) -> Proof:
    direct_ms = statement_ms(scene, "select 1")
    entrance = scene.injected["entrance"]
    far_ms = statement_ms(Scene.at(entrance, scene), "select 1")
    wanted_ms = float(scene.fields["workload"]["variables"]["round_trip_ms"])
    text = f"a round trip through the link takes {far_ms:.1f} ms, {direct_ms:.1f} ms without it"
    owned = scene.share(lambda seen: seen.state.startswith("idle"))
    return Proof(text, far_ms - direct_ms >= 0.9 * wanted_ms, owned)


def _busy_clients(scene: Scene) -> Proof:
    """The server is waited for by nobody, and still does only a part of what comes due."""
    idle = scene.share(lambda seen: seen.state == "idle")
    counted = "select xact_commit from pg_stat_database where datname = current_database()"
    done_tps = scene.query(counted)[0][0] / scene.seconds  # Those of making the tables included.
    due_tps = 2 * scene.fields["clients"][0]["arrival"]["rate"]  # Each statement is one of its own.
    text = (
        f"pg_stat_activity: {idle:.0%} of the sessions idle; pg_stat_database: at most"
        f" {done_tps:.0f} of {due_tps:.0f} transactions per second"
    )
    return Proof(text, idle > 0.7 and done_tps < 0.8 * due_tps, idle)


def _one_client(scene: Scene) -> Proof:
    busy = scene.sessions(lambda seen: seen.state == "active")
    text = f"pg_stat_activity: one session, active in {busy:.0%} of the samples"
    return Proof(text, scene.clients == 1 and busy > 0.2, busy)


CELL = Cell(
    "few-at-once",
    (
        Cause("client-pool", ("client-pool",), _client_pool),
        Cause("pgbouncer-pool", ("pooler",), _pgbouncer, inject=pgbouncer("pool_size")),
        Cause(
            "round-trips",
            ("round-trips",),
            _round_trip,
            scaled=("workload.variables.round_trip_ms",),
            inject=slow_link("round_trip_ms"),
        ),
        Cause(
            "busy-clients",
            ("busy-clients",),
            _busy_clients,
            scaled=("workload.variables.work_ms",),
        ),
        Cause("one-client", ("few-clients",), _one_client),
    ),
)
