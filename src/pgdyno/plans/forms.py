"""The form of a plan: its nodes, tables, indexes and strategies, and the kinds of its conditions;
without values, costs and rows.

The partitions that a plan reads follow from values. Scans of several that are alike are one in a
form, of the whole table, and so is the scan of the only one that is left when it is made;
partitions that are left out when it is executed are those of a plan for any values, which is
another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from itertools import groupby

from msgspec import Struct

from pgdyno.plans.tree import APPENDS, Node, Plan

_USUAL = ("", "Inner", "Plain", "Select")
"""Strategies that the name of a node implies."""
_TEMPORARY = re.compile(r"^pg_temp_\d+\.")


class _Form(Struct, frozen=True):
    """A node's form."""

    own: str
    """Its kind, strategy, index and table."""
    conditions: str
    of_partition: bool = False
    below: tuple[_Form, ...] = ()


def fingerprint(plan: Plan) -> str:
    """Return a short text that is the same for plans of the same form."""
    form = _form(plan.root, plan.wholes)
    return hashlib.sha256(repr(form).encode()).hexdigest()[:12]


def in_one_line(plan: Plan, *, with_conditions: bool = False) -> str:
    """Return the form of a plan from the top, as in "Aggregate > Nested Loop (Seq Scan on a, Index
    Scan using b_pkey on b)"; on request also with the kinds of the conditions."""
    return _line(_form(plan.root, plan.wholes), with_conditions)


def both_in_one_line(one: Plan, other: Plan) -> tuple[str, str]:
    """Return the forms of two plans, with the kinds of the conditions only where nothing else
    differs."""
    lines = in_one_line(one), in_one_line(other)
    if lines[0] != lines[1]:
        return lines
    return in_one_line(one, with_conditions=True), in_one_line(other, with_conditions=True)


def node_words(node: Node, wholes: Mapping[str, str]) -> str:
    """Return a node by itself, as in "Index Scan using b_pkey on b"."""
    return _form(node, wholes).own


def _form(node: Node, wholes: Mapping[str, str]) -> _Form:
    whole = wholes.get(node.relation)
    schema = node.relation.rpartition(".")[0]
    index = wholes.get(f"{schema}.{node.index}", node.index).removeprefix(f"{schema}.")
    relation = _TEMPORARY.sub("pg_temp.", whole or node.relation)
    strategy = f" {node.strategy}" if node.strategy not in _USUAL else ""
    using = f" using {index}" if index else ""
    of = f" on {relation}" if relation else ""
    below = tuple(_form(child, wholes) for child in node.children)
    if node.kind in APPENDS:
        below = tuple(each for each, _ in groupby(below))
        if len(below) == 1 and below[0].of_partition and not node.subplans_removed:
            return below[0]
    return _Form(
        own=f"{node.kind}{strategy}{using}{of}",
        conditions=", ".join(sorted(node.conditions)),
        of_partition=whole is not None,
        below=below,
    )


def _line(form: _Form, with_conditions: bool) -> str:
    own = f"{form.own} [{form.conditions}]" if with_conditions and form.conditions else form.own
    below = [_line(each, with_conditions) for each in form.below]
    if len(below) == 1:
        return f"{own} > {below[0]}"
    return f"{own} ({', '.join(below)})" if below else own
