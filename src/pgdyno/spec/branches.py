"""Branches: variants of a load that begin with the same state of a server."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from pgdyno.json_types import Fields
from pgdyno.spec._base import CLIENTS_MAX, Duration, SettingValue, SpecTable
from pgdyno.spec.story import KeyValue
from pgdyno.spec.units import format_duration

ROUNDS_DEFAULT = 6
"""With fewer than six pairs, an interval must assume how their ratios are distributed."""


class BranchEvent(SpecTable):
    """An action of a branch at a time of its measurement."""

    at_ms: Duration = Field(alias="at")
    sql: str | None = Field(None, min_length=1, description="Statement, on a connection of its own")
    clients: dict[str, int] | None = Field(
        None, description="Clients from then on, by client group, such as { web = 16 }"
    )

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        if (self.sql is None) == (self.clients is None):
            raise ValueError("an event of a branch needs either sql or clients")
        for group, count in (self.clients or {}).items():
            if not 1 <= count <= CLIENTS_MAX:
                raise ValueError(f"clients: {group} can have 1 to {CLIENTS_MAX:,} clients")
        return self


class Branch(SpecTable):
    """A variant: what differs from the spec, and what happens during the load."""

    name: str = Field(min_length=1, max_length=40, description="Name, as shown in the result")
    remark: str = Field("", description="Explanation, shown with the result")
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="Settings of the server to change"
    )
    vary: dict[str, KeyValue] = Field(
        default_factory=dict, description="Keys of the spec to change, such as clients.count"
    )
    match: str | None = Field(
        None,
        description="Name of an earlier branch: this one has as many clients as make about the"
        " throughput that the earlier one has from its first event on",
    )
    events: list[BranchEvent] = Field(
        default_factory=list, description="Actions at a time of the measurement"
    )


class BranchingSpec(SpecTable):
    """The state that all branches begin with, and how often they are measured."""

    before_ms: Duration = Field(
        0, alias="before", description="Time under load before the state is saved"
    )
    rounds: int = Field(
        ROUNDS_DEFAULT,
        ge=3,
        le=1000,
        description="Rounds; in each, every branch is measured once, from the saved state",
    )


def first_event_ms(branches: Sequence[Branch]) -> int:
    """Return the time of the first event of all branches; 0 without one. What is measured before
    is the same load in all branches that differ in events alone."""
    return min((event.at_ms for branch in branches for event in branch.events), default=0)


def check_branches(
    branches: Sequence[Branch],
    groups: Sequence[str],
    *,
    hold_ms: int,
    embedded: bool,
    others: Fields,
) -> None:
    """Raise ValueError for branches that do not go together, or with the rest of a spec.

    ``others`` are parts of the spec that exclude branches, by key, with whether they are used.
    """
    if not branches:
        return
    names = [branch.name for branch in branches]
    if len(names) < 2:
        raise ValueError("branches: at least two are needed, the first to compare the others with")
    if len(set(names)) != len(names):
        raise ValueError("branches must have distinct names")
    if not embedded:
        raise ValueError(
            "branches can only be used with server.kind = embedded: pgdyno stops the server and"
            " replaces its data directory, which it never does to a server that it did not start"
        )
    for key, used in others.items():
        if used:
            raise ValueError(f"{key} cannot be used with branches")
    for number, branch in enumerate(branches):
        if branch.match is not None and branch.match not in names[:number]:
            raise ValueError(f'branch {branch.name}: no branch before it is named "{branch.match}"')
        if branch.match is not None and any(key.startswith("clients.") for key in branch.vary):
            raise ValueError(f"branch {branch.name}: match finds the clients, and so excludes"
                             " clients.* in vary")  # fmt: skip
        for event in branch.events:
            if event.at_ms >= hold_ms:
                raise ValueError(
                    f"branch {branch.name}: the event at {format_duration(event.at_ms)} is not"
                    f" before the end of load.hold, {format_duration(hold_ms)}"
                )
            for group in event.clients or {}:
                if group not in groups:
                    raise ValueError(f'branch {branch.name}: there is no client group "{group}"')
