"""A pool size as settings of poolers and pool libraries, under their own names, and the arithmetic
for several instances of an application."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pgdyno.results.pool import Arithmetic, PoolSettings
from pgdyno.spec.pooler import TITLES, PoolerSpec


class Library(Struct, frozen=True):
    """A connection pool of applications."""

    name: str
    size: tuple[str, ...]
    """Names of the settings that are the size."""
    others: Mapping[str, int]
    """Settings without which there are more or fewer connections."""
    note: str


LIBRARIES = (
    Library(
        "HikariCP",
        ("maximumPoolSize",),
        {},
        "minimumIdle is as large by default: leave it out, so that the pool has a fixed size",
    ),
    Library(
        "Commons DBCP2",
        ("maxTotal", "maxIdle"),
        {},
        "DBCP2 ignores the name maxActive of version 1 with a warning, and has 8 then; with the"
        " default maxIdle = 8 it closes and makes connections beyond 8 all the time",
    ),
    Library(
        "Tomcat JDBC",
        ("maxActive", "maxIdle"),
        {},
        "the default is 100, not the 8 of DBCP",
    ),
    Library(
        "SQLAlchemy",
        ("pool_size",),
        {"max_overflow": 0},
        "of create_engine(); by default max_overflow adds 10 connections to each pool, and each"
        " process has a pool of its own",
    ),
)


def pooler_settings(
    pooler: PoolerSpec, size: int, clients: int, *, application: bool = False
) -> PoolSettings:
    """Return the settings of the pooler for a pool of ``size`` connections and so many clients;
    ``application``: these are the connections of pools of the application."""
    if pooler.kind == "pgpool":
        who = (
            "one process for each connection of the application's pools, which keep theirs"
            if application
            else "measured with clients that disconnect after each transaction, since one that"
            " stays keeps its process"
        )
        return PoolSettings(
            of=TITLES[pooler.kind],
            settings={"num_init_children": size, "max_pool": 1},
            note=f"{who}; each process keeps max_pool connections, one for each user"
            " and database; connections to the server are up to num_init_children × max_pool",
        )
    mode = pooler.settings.get("pool_mode", "transaction")
    return PoolSettings(
        of=TITLES[pooler.kind],
        settings={"pool_mode": mode, "default_pool_size": size, "max_client_conn": clients},
        note="default_pool_size is for each user and database: with several of them,"
        f" max_db_connections = {size} limits all users of a database; max_client_conn is at least"
        " the connections of all applications",
    )


def arithmetic(size: int, instances: int) -> Arithmetic:
    """Divide ``size`` connections among ``instances`` of an application."""
    each = max(1, size // instances)
    total = each * instances
    if instances == 1:
        sentence = f"1 instance has all {size:,}"
    elif size < instances:
        sentence = (
            f"{instances:,} instances need 1 connection each, {total:,} in all, more than the"
            f" {size:,} that are best: a pooler between them and the server can share fewer"
        )
    else:
        rest = size - total
        left = f"; {rest:,} of the {size:,} remain" if rest else ""
        sentence = f"{size:,} / {instances:,} instances = {each:,} each, {total:,} in all{left}"
    return Arithmetic(instances=instances, size_each=each, total=total, sentence=sentence)


def of_instances(size: int, instances: int, pooler: PoolerSpec, shared: int | None) -> Arithmetic:
    """Return the sum of pools of ``size`` connections in each instance, which share so many of the
    pooler's; None: there is no pooler."""
    total = size * instances
    words = f"{instances:,} instances × {size:,} = {total:,} connections"
    if instances == 1:
        words = f"1 instance has {total:,}"
    if shared is not None:
        words += f", which share the {shared:,} of {TITLES[pooler.kind]}"
    return Arithmetic(instances=instances, size_each=size, total=total, sentence=words)


def library_settings(each: int) -> tuple[PoolSettings, ...]:
    """Return the settings of the pool libraries for a pool of ``each`` connections."""
    return tuple(
        PoolSettings(
            of=library.name,
            settings={**dict.fromkeys(library.size, each), **library.others},
            note=library.note,
        )
        for library in LIBRARIES
    )
