"""Everything at once, at random: the ledger stays balanced and nobody is lost."""

from __future__ import annotations

import random
from collections.abc import Callable

import psycopg
import pytest
from engine_runs import Run, config

from pgdyno.server import Cluster

pytestmark = pytest.mark.server

SCRIPTS = [
    "begin;\nselect pg_sleep(0.001);\nend;",
    "\\set x random(0, 3)\nselect 1 / :x;",
    "\\if false\nselect 1;\n\\endif",
]
KILL_SOME = (
    "select pg_terminate_backend(pid) from pg_stat_activity"
    " where application_name = 'pgdyno' and random() < 0.5"
)


def disturb(run: Run, killer: psycopg.Connection, dice: random.Random) -> None:
    """Change the load or hurt the server, or do nothing."""
    match dice.randrange(8):
        case 0 | 1:
            run.load.set_clients("g", dice.randrange(40))
        case 2 | 3:
            run.load.set_pool_max("g", dice.choice([None, 1, 2, 5, 30]))
        case 4:
            killer.execute(KILL_SOME)
        case 5 | 6:
            run.load.end_interval(dice.choice([None, 1, 2]))


@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_lost_whatever_happens(new_cluster: Callable[..., Cluster], seed: int) -> None:
    dice = random.Random(seed)
    cluster = new_cluster(18, max_connections="30", fsync="off")
    keys = {
        "clients": 20,
        "pool": dice.choice([None, {"max": 3, "max_wait_ms": 40}, {"max": 15}]),
        "think_ms": dice.choice([0, 1]),
        "threads": dice.choice([1, 2, 3]),
        "backoff_ms_max": 100,
    }
    # The load takes all other connections at times.
    killer = psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True)
    with Run(config(cluster.conninfo, *SCRIPTS, weights=(6, 2, 1), **keys)) as run:
        for _ in range(40):
            disturb(run, killer, dice)
            run.wait_for_more("done", dice.randrange(1, 20))
        killer.close()
        cluster.restart()
        run.load.set_clients("g", 5)
        pool_max = dice.choice([None, 2])
        run.load.set_pool_max("g", pool_max)
        wanted = (5, 5 if pool_max is None else 2)
        run.wait_for(lambda run: _clients_and_connections(run) == wanted)
        run.wait_for_more("done", 100)
    run.assert_balanced()
    assert run.load.fatal() is None


def _clients_and_connections(run: Run) -> tuple[int, int]:
    if not run.intervals:
        return (-1, -1)
    row = run.last["groups"][0]
    return (row["clients"], row["connections"])
