"""Compilers and flags of two builds, and whether they alone may make a difference."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgdyno.results.versions import BuildFlags
from pgdyno.server import Installation
from pgdyno.server.connecting.build import Build

_COMPILER = re.compile(r"compiled by (.+?), \d+-bit")
_OF_THE_COMPILER = re.compile(r"([a-z]+)[^0-9]*([0-9]+)")
_OPTIMIZATION = re.compile(r"(?<!\S)-O(\S*)")
_MACHINE = re.compile(r"(?<!\S)(-march=\S+|-mtune=\S+|-flto\S*|-fprofile-use\S*)")
_CONFIGURED = ("--enable-cassert", "--enable-debug", "--enable-dtrace", "--enable-coverage")


def flags_of(build: Build, installation: Installation) -> BuildFlags:
    """Return what the build says of itself."""
    compiler = _COMPILER.search(build.told)
    configure = build.flags.get("CONFIGURE", "")
    return BuildFlags(
        version=build.version,
        bindir=str(installation.bindir),
        compiler=compiler[1] if compiler else "",
        cflags=" ".join(build.flags.get("CFLAGS", "").split()),
        configure=configure.replace("'", ""),
        assertions=build.assertions,
        jit=build.jit,
    )


def differences(first: BuildFlags, second: BuildFlags) -> tuple[str, ...]:
    """Return a sentence for each difference of the builds that may change their speed."""
    return tuple(_differences(first, second))


def _differences(first: BuildFlags, second: BuildFlags) -> Iterator[str]:
    sides = (first, second)
    for each in sides:
        if each.assertions:
            yield (
                f"PostgreSQL {each.version} was built with --enable-cassert, which makes it much"
                " slower: it is for developers"
            )
    levels = [_level(each) for each in sides]
    if levels[0] != levels[1]:
        yield f"optimized differently: {_each(sides, levels)}"
    compilers = [_family(each) for each in sides]
    if compilers[0] != compilers[1]:
        yield f"compiled by different compilers: {_each(sides, [s.compiler for s in sides])}"
    machine = [" ".join(sorted(_MACHINE.findall(each.cflags))) or "neither" for each in sides]
    if machine[0] != machine[1]:
        yield f"made for different CPUs, or optimized as a whole: {_each(sides, machine)}"
    if first.jit != second.jit:
        has_jit = ["available" if each.jit else "not built in" for each in sides]
        yield f"JIT: {_each(sides, has_jit)}"
    for option in _CONFIGURED[1:]:
        has = ["with it" if option in each.configure else "without it" for each in sides]
        if has[0] != has[1]:
            yield f"{option}: {_each(sides, has)}"


def _level(flags: BuildFlags) -> str:
    """Return the last -O of the flags, which is the one that counts."""
    found = _OPTIMIZATION.findall(flags.cflags)
    return f"-O{found[-1]}" if found else "no -O"


def _family(flags: BuildFlags) -> str:
    """Return the compiler with its major version."""
    found = _OF_THE_COMPILER.match(flags.compiler)
    return f"{found[1]} {found[2]}" if found else flags.compiler


def _each(sides: tuple[BuildFlags, BuildFlags], words: list[str]) -> str:
    first, second = sides
    return f"{first.version} {words[0]}, {second.version} {words[1]}"
