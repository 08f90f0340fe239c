"""The poolers' names are the same in specs, in the option and in the directory of kinds."""

from __future__ import annotations

from typing import get_args

from pgdyno.cli.run_command import command
from pgdyno.pooler._kind import kinds
from pgdyno.spec.pooler import TITLES, PoolerName


def test_every_pooler_has_one_name() -> None:
    names = set(get_args(PoolerName))
    option = next(each for each in command.params if each.name == "pooler")
    assert set(getattr(option.type, "choices", ())) == names
    assert {name: kind.title for name, kind in kinds().items()} == TITLES
    assert set(TITLES) == names - {"none"}
