"""Before a search for a pool size: a spec in which one client group shares a pool, its own or
that of a pooler."""

from __future__ import annotations

from pgdyno.errors import UsageError
from pgdyno.search.connections import clients_default
from pgdyno.search.group import chosen_group, with_scale
from pgdyno.search.times import check_budget
from pgdyno.spec import ClientGroup, Pool, Spec
from pgdyno.spec.pooler import SIZE_SETTINGS

__all__ = ["FIRST_SIZE", "check_budget", "prepared_spec"]
CLIENTS_OVER_SIZES = 2
"""By default there are so many times as many clients as connections are tried: a pool is shared."""
FIRST_SIZE = 8
"""Size of the pool while the load warms up."""


def prepared_spec(
    spec: Spec, *, group: str | None, choose_clients: bool, instances: int | None = None
) -> tuple[Spec, str]:
    """Return the spec under which the sizes are measured, and the name of the group that varies.

    ``choose_clients``: neither an option nor a spec says how many there are. With ``instances``
    behind a pooler, the application has pools of its own. Raises UsageError where no group, or no
    such group, can share a pool.
    """
    chosen = chosen_group(spec, group)
    count = CLIENTS_OVER_SIZES * clients_default() if choose_clients else chosen.count
    if count < 2:
        raise UsageError(
            f"{chosen.name} has one client, which needs one connection: there is no pool size to"
            " look for",
            code="one-client",
            hint="-c 100, or count = 100 in the spec",
        )
    layers = spec.pooler.in_use and (chosen.pool is not None or instances is not None)
    if chosen.reconnect_every and (layers or not spec.pooler.in_use):
        raise UsageError(
            f"{chosen.name} makes new connections all the time, and a pool keeps its connections",
            code="contradiction",
            hint='leave -C out, or remove connection = "per-transaction" from the spec',
        )
    number = 1
    if layers or chosen.instances > 1:
        number = _instances(chosen, count, instances)
    pool = _application_pool(chosen, count, number) if layers else _pool(spec, chosen, count)
    changed = chosen.model_copy(update={"count": count, **pool})
    groups = [changed if each is chosen else each for each in spec.clients]
    pooled = _with_pooler(
        spec.model_copy(update={"clients": groups}), changed.connections_max if layers else count
    )
    return with_scale(pooled, count), chosen.name


def layers_of(spec: Spec, group: str) -> int:
    """Return how many sizes are looked for: two where the application has pools in front of the
    pooler, whose size is not simply their sum."""
    chosen = next(each for each in spec.clients if each.name == group)
    return 1 + (spec.pooler.kind == "pgbouncer" and chosen.pool is not None)


def _instances(group: ClientGroup, clients: int, asked: int | None) -> int:
    """Return how many instances there are, each with a client at least."""
    number = group.instances if asked is None else asked
    if group.instances > 1 and number != group.instances:
        raise UsageError(
            f"{group.name} has {group.instances} instances in the spec, and --instances {asked} is"
            " another number",
            code="contradiction",
            hint="leave --instances out",
        )
    if number > clients:
        raise UsageError(
            f"{group.name} has {clients:,} clients, and {number:,} instances would need one each",
            code="fewer-clients-than-instances",
            hint=f"-c {CLIENTS_OVER_SIZES * number}, or fewer instances",
        )
    return number


def _application_pool(
    group: ClientGroup, clients: int, instances: int
) -> dict[str, Pool | int | None]:
    """Return pools of the application with a connection for each client, so that at first only the
    pooler's limits them."""
    pool = (group.pool or Pool()).model_copy(
        update={"max": -(-clients // instances), "min_idle": 0}
    )
    return {"pool": pool, "instances": instances}


def _pool(spec: Spec, group: ClientGroup, clients: int) -> dict[str, Pool | str | None]:
    """Return the group's pool with the first size; behind a pooler it is that whose size is
    varied. pgpool-II keeps a process for each client, so that only clients that disconnect share
    it."""
    if spec.pooler.kind == "pgpool" and not group.reconnect_every:
        return {"pool": None, "connection": "per-transaction"}
    if spec.pooler.in_use:
        return {}
    pool = group.pool or Pool()
    return {"pool": pool.model_copy(update={"max": min(FIRST_SIZE, clients), "min_idle": 0})}


def _with_pooler(spec: Spec, clients: int) -> Spec:
    """Return the spec with a pooler that shares its connections, of the first size."""
    pooler = spec.pooler
    if not pooler.in_use:
        return spec
    if pooler.kind not in SIZE_SETTINGS:
        raise UsageError(
            f"pooler.kind = {pooler.kind}: its pool size cannot be looked for",
            code="pooler-without-size",
            hint=f"--pooler {' or '.join(SIZE_SETTINGS)}",
        )
    if pooler.settings.get("pool_mode", "transaction") == "session":
        raise UsageError(
            "with pool_mode = session each client keeps a connection, and as many as there are"
            " connections are served: there is no size to look for",
            code="contradiction",
            hint="pool_mode = transaction, which is the default here",
        )
    defaults = {"pool_mode": "transaction"}
    if pooler.kind == "pgpool":
        # A client that waits is in the listen queue, which otherwise is twice as long as the pool.
        defaults = {"max_pool": "1", "listen_backlog_multiplier": str(clients)}
    size = {SIZE_SETTINGS[pooler.kind]: str(min(FIRST_SIZE, clients))}
    settings = {**defaults, **pooler.settings, **size}
    load = spec.load
    if pooler.kind == "pgbouncer" and "protocol" not in load.model_fields_set:
        # Prepared statements are not supported by every version in this mode.
        load = load.model_copy(update={"protocol": "extended"})
    pooler = pooler.model_copy(update={"settings": settings})
    return spec.model_copy(update={"pooler": pooler, "load": load})
