"""Settings for developers and for rescuing damaged data, left on.

Trigger: one of them is on, or debug_discard_caches is above 0. Threshold: none; PostgreSQL's
documentation ("Developer Options") says that they should not be used on a production database.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._sight import Sight, alter_system, measured
from pgdyno.numbers import listed

_HIDES_DAMAGE = {
    "zero_damaged_pages": "damaged pages are emptied without an error",
    "ignore_checksum_failure": "damaged pages are read as if they were sound",
    "ignore_invalid_pages": "recovery goes on over missing pages",
}
_OTHERS = {
    "ignore_system_indexes": "each look-up in a catalog reads all of it",
    "allow_system_table_mods": "catalogs can be changed by hand",
    "debug_discard_caches": "each session throws its caches away over and over",
}


def examine(sight: Sight) -> Fault | Fine:
    """Examine the settings that are there and visible."""
    known = [n for n in (*_HIDES_DAMAGE, *_OTHERS) if sight.knows(n)]
    on = [name for name in known if sight.setting(name).value not in ("off", "0")]
    evidence = [measured(name, sight.setting(name).value, "", "not off") for name in on]
    if not on:
        return Fine("no setting for developers is on")
    whys = {**_HIDES_DAMAGE, **_OTHERS}
    return Fault(
        sentence=f"{listed(on)} {'is' if len(on) == 1 else 'are'} on: {whys[on[0]]}",
        severity="costs",
        confidence=0.9,
        evidence=evidence,
        commands=alter_system({n: "0" if n == "debug_discard_caches" else "off" for n in on}),
    )


RULE = Rule(
    id="developer-settings",
    looks=("setting",),
    false_positives="data that is being rescued from a damaged server at this moment",
    examine=examine,
)
