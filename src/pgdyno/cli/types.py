"""Types of option values, with their syntax and error messages, and what a shell completes."""

from __future__ import annotations

import re
import time
from typing import Any

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from pgdyno.errors import UsageError

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][0-9]+)?"
_CPUS = r"([0-9]{1,5})(?:-([0-9]{1,5}))?"


class Duration(click.ParamType[int]):
    """A duration on the command line, in milliseconds; a bare number is seconds, as in pgbench."""

    name = "time"

    def __init__(self, *, positive: bool = False) -> None:
        """With ``positive``, less than one millisecond is an error."""
        self._positive = positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pgdyno.spec.units import parse_duration_ms

        if isinstance(value, int):
            return value
        try:
            duration_ms = parse_duration_ms(value, bare_unit="s")
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        if self._positive and duration_ms == 0:
            self.fail(f'"{value}" must be greater than 0', param, ctx)
        return duration_ms


class Size(click.ParamType[int]):
    """A size on the command line, in bytes, as PostgreSQL writes it: ``5GB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pgdyno.spec.units import parse_size_bytes

        if isinstance(value, int):
            return value
        try:
            return parse_size_bytes(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class LatencyLimit(click.ParamType[int]):
    """A latency, in microseconds; a bare number is milliseconds, as for pgbench's -L."""

    name = "ms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pgdyno.spec.units import parse_duration_us

        if isinstance(value, int):
            return value
        try:
            limit_us = parse_duration_us(value, bare_unit="ms")
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        if limit_us == 0:
            self.fail(f'"{value}" must be greater than 0', param, ctx)
        return limit_us


class Rate(click.ParamType[float]):
    """Transactions per second, more than 0."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        if not re.fullmatch(_NUMBER, value):
            self.fail(
                f'"{value}" is not a rate: a number of transactions per second, such as 500',
                param,
                ctx,
            )
        if float(value) == 0:
            raise UsageError(
                f"-R {value}: the rate must be greater than 0",
                code="bad-rate",
                hint="leave -R out for a closed loop without a rate limit",
            )
        return float(value)


class Speed(click.ParamType[float]):
    """A factor of rates: ``2x``, ``0.5`` or ``50%``."""

    name = "factor"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        from pgdyno.spec.units import parse_factor

        if isinstance(value, float):
            return value
        try:
            return parse_factor(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class Scale(click.ParamType[float]):
    """A scale factor: a whole number or, for the rows of a capture, a part of them: ``0.01``."""

    name = "scale"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, int | float):
            return value
        if not re.fullmatch(_NUMBER, value) or float(value) == 0:
            self.fail(f'"{value}" is not a scale: a number greater than 0', param, ctx)
        number = float(value)
        return int(number) if number.is_integer() else number


class FailuresLimit(click.ParamType[str]):
    """Maximum of failed transactions: ``1%`` or ``100``."""

    name = "failures"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from pgdyno.spec.load import FailuresMax

        try:
            FailuresMax.parse(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        return str(value)


class Share(click.ParamType[float]):
    """A part of something, 0 to 1, written as ``33%``."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        from pgdyno.spec.units import parse_share

        try:
            return parse_share(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class Seed(click.ParamType[int]):
    """pgbench's --random-seed: a number, or ``time`` or ``rand`` for a new one."""

    name = "seed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from pgdyno.spec.load import SEED_MAX

        if isinstance(value, int):
            return value
        if value == "time":
            return time.time_ns() // 1000 & SEED_MAX
        if value == "rand":
            import secrets

            return secrets.randbits(63)
        if not (value.isascii() and value.isdecimal()) or int(value) > SEED_MAX:
            self.fail(f'"{value}" is neither time nor rand nor a whole number', param, ctx)
        return int(value)


class Cpus(click.ParamType[list[int]]):
    """A list of CPUs: ``0,2-3``."""

    name = "cpus"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        if isinstance(value, list):
            return value
        cpus: list[int] = []
        for part in value.split(","):
            match = re.fullmatch(_CPUS, part.strip())
            if match is None:
                self.fail(f'"{value}" is not a list of CPUs such as 0,2-3', param, ctx)
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                self.fail(f'"{part.strip()}": the first CPU is greater than the last', param, ctx)
            cpus += range(first, last + 1)
        return cpus


class StandbyMode(Struct, frozen=True):
    """Replication mode, which is what commits wait for, and the number of standbys."""

    mode: str
    count: int


class Standbys(click.ParamType[StandbyMode]):
    """Standbys: the mode and their number, as ``on`` or ``remote_apply:2``."""

    name = "standby"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> StandbyMode:
        if isinstance(value, StandbyMode):
            return value
        mode, colon, count = value.partition(":")
        if colon and not (count.isascii() and count.isdecimal() and len(count) < 4):
            self.fail(f'"{value}": "{count}" is not a number of standbys, as in on:2', param, ctx)
        return StandbyMode(mode, int(count) if colon else 1)


class Count(click.ParamType[int]):
    """A whole number of something, which may be written as ``1.2e9``."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        plain = value.replace("_", "").replace(",", "")
        if not re.fullmatch(_NUMBER, plain) or not float(plain).is_integer():
            self.fail(f'"{value}" is not a whole number such as 1500000000 or 1.5e9', param, ctx)
        return int(float(plain))


class ListenAddress(click.ParamType[Any]):
    """An address to listen on: ``HOST:PORT``, or a port of the loopback address."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pgdyno.spec.address import parse_address

        if not isinstance(value, str):
            return value
        try:
            return parse_address(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


class LatencyLimits(click.ParamType[str]):
    """Limits of the response time, such as ``p99<20ms``, as text."""

    name = "limits"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from pgdyno.search.slo import parse_limits

        try:
            parse_limits(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)
        return str(value)


def complete_workloads(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete built-in workloads, and files, as specs are files."""
    from pgdyno.spec.workload import BUILTIN_SCRIPTS

    names = [name for name in BUILTIN_SCRIPTS if name.startswith(begun)]
    return [*map(CompletionItem, names), CompletionItem(begun, type="file")]


def complete_scripts(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete built-in scripts that can be part of a mix."""
    from pgdyno.spec.workload import MIXABLE_SCRIPTS

    return [CompletionItem(name) for name in MIXABLE_SCRIPTS if name.startswith(begun)]


def complete_faults(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete the faults of drills."""
    from pgdyno.drill.faults import fault_names

    return [CompletionItem(name) for name in fault_names() if name.startswith(begun)]


def complete_files(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete any file."""
    return [CompletionItem(begun, type="file")]


def complete_directories(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Complete any directory."""
    return [CompletionItem(begun, type="dir")]
