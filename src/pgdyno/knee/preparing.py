"""Before a search: its spec, in which one client group is varied, and whether the time suffices."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.errors import UsageError
from pgdyno.search.connections import clients_default
from pgdyno.search.group import chosen_group, with_scale
from pgdyno.search.slo import EXAMPLE, Limit
from pgdyno.search.times import check_budget
from pgdyno.spec import Arrival, ClientGroup, Spec

__all__ = ["check_budget", "closed_group", "prepared_spec"]
BASE_RATE = 1.0
"""Rate of a closed loop that is made an open one; points are factors of it."""


def prepared_spec(
    spec: Spec, *, group: str | None, clients: int | None, limits: Sequence[Limit]
) -> tuple[Spec, str]:
    """Return the spec under which the points are measured, and the name of the group that varies.

    ``clients`` are the most that may be tried; with ``limits`` the group sends at a rate. Raises
    UsageError where no group, or no such group, can be varied.
    """
    chosen = chosen_group(spec, group)
    most = clients or clients_default()
    # How many connections a running server has free is known once it is connected.
    known = clients is not None or spec.server.kind == "embedded"
    changed = chosen.model_copy(
        update={
            "count": most if known else chosen.count,
            "arrival": _arrival(chosen, limits),
        }
    )
    groups = [changed if each is chosen else each for each in spec.clients]
    return with_scale(spec.model_copy(update={"clients": groups}), most), chosen.name


def closed_group(spec: Spec) -> str:
    """Return the name of the only group that sends transactions, in a closed loop. Raises
    UsageError if there is none: then ``pgdyno knee`` has the options that are needed."""
    active = [each for each in spec.clients if not each.idle]
    if len(active) == 1 and active[0].open_loop is None:
        return active[0].name
    several = f"has {len(active)} client groups" if len(active) > 1 else "sends at a rate"
    raise UsageError(
        f"--knee varies the number of clients of one closed loop, and the spec {several}",
        code="contradiction",
        hint="pgdyno knee, with --group or --slo",
    )


def _arrival(group: ClientGroup, limits: Sequence[Limit]) -> Arrival | str:
    """Return how the transactions of the group arrive."""
    if not limits:
        if group.open_loop:
            raise UsageError(
                f"the clients of {group.name} send at a rate, and the highest rate needs a limit of"
                " the response time",
                code="contradiction",
                hint=f"--slo '{EXAMPLE}'",
            )
        return "closed"
    if group.think_ms:
        raise UsageError(
            "--slo looks for a rate, and clients that send at a rate do not pause (think)",
            code="contradiction",
            hint="remove think, or leave --slo out to look for a number of clients",
        )
    arrival = group.open_loop
    if arrival is None:
        return Arrival(rate=BASE_RATE)
    if arrival.shape is not None:
        raise UsageError(
            f"the rate of {group.name} has {arrival.shape}, and a rate that is looked for is"
            " constant",
            code="contradiction",
            hint=f"remove arrival.{arrival.shape} from the spec",
        )
    return arrival
