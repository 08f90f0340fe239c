"""Statements that take longer for being compiled (JIT) than that can save.

Trigger: compiling took at least ``JIT_SHARE`` of the time of statements of one shape, and
``JIT_MS_MIN`` in all, by pg_stat_statements (from PostgreSQL 15). Threshold: ours; what compiling
saves is a part of the time of expressions and tuples, which is less than this of most statements.
pgtune and pg_gather just turn JIT off.
"""

from __future__ import annotations

from pgdyno.check._rule import Fault, Fine, Rule
from pgdyno.check._shapes import shapes
from pgdyno.check._sight import Sight, Unseen, measured, proposed
from pgdyno.diagnose.facts.compiling import JIT_SHARE
from pgdyno.numbers import figure, percent

JIT_MS_MIN = 1000.0
SHOWN = 5


def examine(sight: Sight) -> Fault | Fine:
    """Compare the time of compiling with that of executing."""
    jit = sight.setting("jit")
    if not jit.is_on:
        return Fine("jit is off", [measured("jit", jit.value, "")])
    known = [each for each in shapes(sight) if each.jit_ms is not None]
    if not known and shapes(sight):
        raise Unseen(
            "the time of compiling statements (JIT)",
            "this version of pg_stat_statements does not count it",
            "PostgreSQL 15 or newer, and ALTER EXTENSION pg_stat_statements UPDATE",
        )
    bar = f"at least {percent(JIT_SHARE)}"
    found = [s for s in known if s.compiled_ms >= max(JIT_MS_MIN, JIT_SHARE * s.exec_ms)]
    found.sort(key=lambda each: -each.compiled_ms)
    if not found:
        return Fine("compiling takes a small part of the time of statements")
    worst = found[0]
    return Fault(
        sentence=(
            f"compiling (JIT) took {percent(worst.compiled_ms / worst.exec_ms)} of the time of a"
            f" statement of {figure(worst.exec_ms / worst.calls)} ms: {worst.text}"
        ),
        severity="costs",
        confidence=0.8,
        evidence=[
            item
            for each in found[:SHOWN]
            for item in (
                measured("time of compiling", each.compiled_ms / each.exec_ms, "share", bar),
                measured("time of a call", each.exec_ms / each.calls, "ms"),
                measured("statement", each.text, ""),
            )
        ],
        advice="turn jit off, or raise jit_above_cost beyond the cost of these statements",
        commands=["ALTER SYSTEM SET jit = off", "SELECT pg_reload_conf()"],
        proposals=[proposed("jit-off", "statements are not compiled", {"jit": "off"})],
    )


RULE = Rule(
    id="compiled-statements",
    looks=("setting", "statement"),
    false_positives="long reports beside it that gain from being compiled",
    examine=examine,
    covered_by=("jit",),
)
