"""Draws from seeds: which causes, and a load in which they may matter.

The entry of a seed is the one with the largest hash of seed and name, so that an entry that is
added takes over some seeds and leaves the others as they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec.structs import replace

from exam.drawn.causes import entries
from exam.drawn.model import Chance, Draft, Draw, Entry, Fault, Load, Script, ServerFacts, place
from exam.drawn.schema import drawn_names
from exam.drawn.statements import ALL, BY_NAME

HEALTHY = "healthy"
HEALTHY_EVERY = 6
TWO_CAUSES = 0.2
"""Share of the draws with causes that have two of them."""
RATES = 0.15
"""Share of the draws with causes whose clients are due at a rate, and not in a closed loop."""
PROTOCOLS = ("simple", "extended", "prepared", "prepared")
ANY_PATTERN = "*"
_Thing = TypeVar("_Thing")


def version_of(seed: int, versions: Sequence[int]) -> int:
    """Return the version of PostgreSQL on which a seed is drawn."""
    return versions[place("version", seed) % len(versions)]


def is_healthy(seed: int, pattern: str) -> bool:
    """Return whether a seed has no cause."""
    if pattern == ANY_PATTERN:
        return seed % HEALTHY_EVERY == 0
    return HEALTHY in pattern.split(",")


def asked_for(pattern: str) -> list[Entry]:
    """Return the entries whose name or kind matches one of the patterns, which commas separate."""
    patterns = pattern.split(",")
    return [
        entry
        for entry in entries()
        if any(fnmatchcase(word, each) for word in (entry.name, entry.kind) for each in patterns)
    ]


def draw(seed: int, server: ServerFacts, pattern: str = ANY_PATTERN) -> Draw:
    """Return the draw of a seed. Raises ValueError if nothing matches the pattern."""
    chance = random.Random(f"draw/{seed}")
    chosen = [] if is_healthy(seed, pattern) else _chosen(seed, server, pattern)
    partitions = next((each.partitions for each in chosen if each.partitions), None)
    draft = Draft(chance, server, drawn_names(chance, partitions))
    faults = [fault for each in chosen if (fault := each.drawn(_apart(draft, seed, each)))]
    load = _load(draft, chosen)
    return Draw(seed, server.version, load, tuple(_independent(faults)))


def _apart(draft: Draft, seed: int, entry: Entry) -> Draft:
    """Return a draft whose chance depends on seed and entry alone."""
    return replace(draft, chance=random.Random(f"fault/{seed}/{entry.name}"))


def _chosen(seed: int, server: ServerFacts, pattern: str) -> list[Entry]:
    """Return one entry or two: first a kind, so that those with many entries are not preferred."""
    possible = [each for each in asked_for(pattern) if _possible(each, server)]
    if not possible:
        raise ValueError(f"no cause on PostgreSQL {server.version} matches {pattern}")
    first = _of_a_kind(possible, seed, "first")
    others = [each for each in possible if _goes_with(each, first)]
    two = place("two", seed) % 1000 < 1000 * TWO_CAUSES
    if not others or not two or first.alone or first.bait:
        return [first]
    return [first, _of_a_kind(others, seed, "second")]


def _possible(entry: Entry, server: ServerFacts) -> bool:
    names = drawn_names(random.Random(0), entry.partitions)
    return entry.drawn(Draft(random.Random(0), server, names)) is not None


def _of_a_kind(possible: Sequence[Entry], seed: int, which: str) -> Entry:
    kinds = sorted({each.kind for each in possible})
    kind = _largest(kinds, lambda each: place(which, "kind", seed, each))
    of_kind = [each for each in possible if each.kind == kind]
    return _largest(of_kind, lambda each: place(which, "entry", seed, each.name))


def _largest(things: Sequence[_Thing], rank: Callable[[_Thing], int]) -> _Thing:
    return max(things, key=rank)


def _goes_with(entry: Entry, first: Entry) -> bool:
    """Return whether two entries can be in one load."""
    if entry.kind == first.kind or entry.alone or entry.bait:
        return False
    protocols = set(entry.protocols or PROTOCOLS) & set(first.protocols or PROTOCOLS)
    ranges = [each for each in (entry.clients, first.clients) if each]
    fits = not ranges or max(low for low, _ in ranges) <= min(high for _, high in ranges)
    return bool(protocols) and fits and not (entry.partitions and first.partitions)


def _independent(faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults without those that would change what another one changes."""
    kept: list[Fault] = []
    for fault in faults:
        touched = _touched(fault)
        if not any(touched & _touched(other) for other in kept):
            kept.append(fault)
    return kept


def _touched(fault: Fault) -> set[str]:
    load = {"clients": fault.clients, "pool": fault.pool, "protocol": fault.protocol}
    return {
        *fault.settings,
        *fault.plant,
        *fault.swaps,
        *fault.beside,
        *(name for name, value in load.items() if value is not None),
    }


def _load(draft: Draft, chosen: Sequence[Entry]) -> Load:
    """Draw a load in which the entries make sense."""
    chance = draft.chance
    statements = [chance.choice(each.loads) for each in chosen if each.loads]
    if not any(each.alone for each in chosen) or not statements:
        statements += _others(chance, 0 if statements else 1)
    statements = list(dict.fromkeys(statements))
    protocols = [name for name in PROTOCOLS if all(_allows(each, name) for each in chosen)]
    low = max([2, *(each.clients[0] for each in chosen if each.clients)])
    high = min([12, *(each.clients[1] for each in chosen if each.clients)])
    return Load(
        names=draft.names,
        parts=frozenset(part for name in statements for part in BY_NAME[name].needs),
        statements=tuple(statements),
        scripts=_scripts(draft, statements),
        protocol=chance.choice(protocols),
        clients=chance.randint(low, high) if low <= high else low,
        rate_share=_rate_share(chance, chosen),
        process=chance.choice(("poisson", "constant")),
    )


def _rate_share(chance: Chance, chosen: Sequence[Entry]) -> float | None:
    """Draw the rate of a load: a low one without causes; with them, one that would be held."""
    if not chosen:
        return chance.choice((0.05, 0.1, 0.15))
    held = chance.random() < RATES and not any(each.bait for each in chosen)
    return chance.choice((0.4, 0.6)) if held else None


def _allows(entry: Entry, protocol: str) -> bool:
    return not entry.protocols or protocol in entry.protocols


def _others(chance: Chance, fewest: int) -> list[str]:
    """Draw statements that no cause asks for."""
    weights = [each.weight for each in ALL]
    count = chance.choice((fewest, 1, 1, 2, 3))
    return [each.name for each in chance.choices(ALL, weights, k=count)]


def _scripts(draft: Draft, statements: Sequence[str]) -> tuple[Script, ...]:
    """Draw scripts: one of all statements, a transaction or not, or one of each with weights."""
    chance, texts = draft.chance, _texts(draft.names.in_braces(), statements)
    if len(texts) > 1 and chance.random() < 0.4:
        return tuple(Script(text, chance.choice((1, 1, 2, 4))) for text in texts)
    whole = "\n".join(texts)
    writes = any(BY_NAME[name].order for name in statements)
    if writes and len(texts) > 1 and chance.random() < 0.7:
        whole = f"begin;\n{whole}\ncommit;"
    return (Script(whole, 1),)


def _texts(names: Mapping[str, object], statements: Sequence[str]) -> list[str]:
    in_order = sorted((BY_NAME[name] for name in statements), key=lambda each: each.order)
    return [each.text.format_map(names) for each in in_order]
