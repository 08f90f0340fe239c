"""The texts of the built-in scripts: those of pgbench, which the engine has, and pgdyno's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_SCRIPTS = Path(__file__).with_name("scripts")
TPCC_PARTS = {"new-order": 45, "payment": 43, "order-status": 4, "delivery": 4, "stock-level": 4}
"""The transactions of ``tpcc-like`` and their percent; clause 5.2.3 of TPC-C has the least of all
but New-Order."""


@cache
def builtin_texts() -> Mapping[str, str]:
    """Return the text of each built-in script, by its name."""
    from pgdyno._engine import builtin_scripts

    own = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_SCRIPTS.glob("*.sql"))}
    for part in TPCC_PARTS:
        call = f"tpcc-functions-{part}"
        own[call] = _with_call(own[f"tpcc-{part}"], own[call])
    return {**builtin_scripts(), **own}


def _with_call(script: str, call: str) -> str:
    """Return a script that draws the same values, and calls a function in place of the statements
    of its block."""
    draws, _, _ = script.partition("\nbegin;\n")
    _, _, after = script.rpartition("\ncommit;\n")
    return f"{draws}\n{call}{after}"
