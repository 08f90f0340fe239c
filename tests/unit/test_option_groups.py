"""Options as fields of structs: what click gives arrives in them, and commands change some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner
from msgspec import Struct

from pgdyno.cli import cli
from pgdyno.cli.grouping import (
    Sets,
    _Group,
    _Option,
    _parts,
    instead,
    set_options,
    sets,
    taking_options,
)
from pgdyno.spec.read import _known_keys


class Inner(Struct, frozen=True, kw_only=True):
    size: Annotated[int, click.option("--size", type=int, default=1)] = 7
    colour: Annotated[
        str | None,
        click.option("-r", "colour", flag_value="red"),
        click.option("-b", "colour", flag_value="blue"),
    ] = None


class Outer(Struct, frozen=True, kw_only=True):
    names: Annotated[tuple[str, ...], click.argument("names", nargs=-1)]
    inner: Inner = Inner()
    last: Annotated[bool, click.option("--last", is_flag=True)]


class LogKeys(Struct, frozen=True, kw_only=True):
    prefix: Annotated[str | None, sets("load.log.prefix", "--log-prefix")]


class Keys(Struct, frozen=True, kw_only=True):
    log: LogKeys
    plain: Annotated[int, click.option("--plain")]
    seed: Annotated[int | None, sets("load.seed", "-s", "--seed", type=int)]


def made(hint: Any, words: list[str]) -> tuple[list[str], Any]:
    """The names of the parameters of a command with such a group, and the group for ``words``."""
    got: list[Any] = []

    def callback(outer: Any, more: Any) -> None:
        got.extend((outer, more))

    more = Annotated[str, click.option("--more", default="x")]
    callback.__annotations__ = {"outer": hint, "more": more, "return": None}
    command = click.command()(taking_options(callback))
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    return [str(each.name) for each in command.params], got


def test_options_are_in_the_order_of_fields_and_values_in_their_groups() -> None:
    names, got = made(Outer, ["a", "b", "--size", "3", "-b", "--last"])
    assert names == ["names", "size", "colour", "colour", "last", "more"]
    inner = Inner(size=3, colour="blue")
    assert got == [Outer(names=("a", "b"), inner=inner, last=True), "x"]


@pytest.mark.parametrize(
    ("changed", "words", "names", "inner"),
    [
        ({"size": None}, ["-r"], ["colour", "colour"], Inner(colour="red")),
        ({"inner": None}, [], [], Inner()),
        (
            {"size": click.option("--largest", "size", type=int)},
            ["--largest", "5"],
            ["size", "colour", "colour"],
            Inner(size=5),
        ),
    ],
    ids=["an option left out", "a group left out", "another option"],
)
def test_a_command_changes_options_of_a_group(
    changed: dict[str, Any], words: list[str], names: list[str], inner: Inner
) -> None:
    found, (outer, _) = made(Annotated[Outer, instead(**changed)], words)
    assert found == ["names", *names, "last", "more"]
    assert outer.inner == inner


def options_in(part: _Option | _Group) -> list[_Option]:
    return (
        [part]
        if isinstance(part, _Option)
        else [o for each in part.parts for o in options_in(each)]
    )


def commands() -> list[click.Command]:
    context = click.Context(cli)
    tops = [cli.get_command(context, name) for name in cli.list_commands(context)]
    return [
        command
        for top in tops
        if top is not None
        for command in (top.commands.values() if isinstance(top, click.Group) else [top])
    ]


def declared_options() -> Iterator[tuple[click.Command, _Option]]:
    for command in commands():
        if wrapped := getattr(command.callback, "__wrapped__", None):
            for part in _parts(wrapped, {}):
                yield from ((command, option) for option in options_in(part))


def test_every_option_sets_the_field_that_it_is_written_beside() -> None:
    checked = 0
    for command, option in declared_options():
        lonely = lambda **_: None  # noqa: E731
        for declared in option.declared:
            declared(lonely)
        params = lonely.__click_params__  # type: ignore[attr-defined]
        assert {each.name for each in params} == {option.name}, command.name
        checked += 1
    assert checked > 400


def test_every_key_that_an_option_sets_is_one_of_the_spec() -> None:
    keys = {
        each.key
        for _, option in declared_options()
        for each in option.declared
        if isinstance(each, Sets)
    }
    for key in keys:
        *table, last = key.split(".")
        assert last in _known_keys(tuple(table)), key
    assert len(keys) > 50


def test_options_that_set_keys_are_found_in_groups_within_groups() -> None:
    found = set_options(Keys(log=LogKeys(prefix="x"), plain=1, seed=None))
    assert [(each.key, each.names[0], value) for each, value in found] == [
        ("load.log.prefix", "--log-prefix", "x"),
        ("load.seed", "-s", None),
    ]
