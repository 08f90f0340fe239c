r"""The script of a load that has only one, as its text shows what a transaction does; and the
pauses that it asks for with ``\sleep``, so that its lateness is not taken for them.

A client that is to be woken after 20 ms is woken later where its machine has no idle core.
"""

from __future__ import annotations

import re

from pgdyno.facts.slices import Facts

_SLEEP = r"(?im)^\s*\\sleep\s+(\S+?)\s*(us|ms|s)?\s*$"
_CONDITION = r"(?im)^\s*\\(?:if|for)\b"
_UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


def only_script(s: Facts) -> str | None:
    """Return the text of the load's only script: a built-in one, or one whose text was recorded.

    None if a client group has scripts of its own, or there are several.
    """
    from pgdyno.workload.builtin import builtin_texts

    spec = s.run.run.spec
    mix = spec.get("workload", {}).get("script")
    if any(group.get("script") for group in spec.get("clients", [])):
        return None
    if isinstance(mix, str):
        return builtin_texts().get(mix)
    if not mix or len(mix) > 1:
        return None
    return mix[0].get("text") or builtin_texts().get(mix[0].get("builtin") or "")


def asked_ms(script: str) -> float | None:
    r"""Return the time that a transaction of ``script`` sleeps for, in milliseconds.

    None if it is not the same for each: it depends on a variable, on ``\if`` or on ``\for``.
    """
    asked = re.findall(_SLEEP, script)
    if re.search(_CONDITION, script) or not all(number.isdecimal() for number, _ in asked):
        return None
    return sum(float(number) * _UNIT_MS[unit.lower() or "s"] for number, unit in asked)


def asked_of(s: Facts) -> float:
    """Return the time for which the load's only script asks a transaction to sleep, in
    milliseconds; 0 where that is not known, or none."""
    return asked_ms(only_script(s) or "") or 0.0


def late_ms(s: Facts, within_ms: float, outside_ms: float) -> tuple[float, float]:
    """Return the time that pauses take beyond the script's, within transaction blocks and outside,
    where lateness is looked for first; 0 if the script asks for none.

    ``within_ms`` and ``outside_ms`` are the clients' own time.
    """
    asked = asked_of(s)
    late = max(0.0, within_ms + outside_ms - asked) if asked else 0.0
    outside = min(outside_ms, late)
    return min(within_ms, late - outside), outside
