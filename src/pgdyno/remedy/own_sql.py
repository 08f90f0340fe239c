"""SQL of the user's as a change. What it may lose is known of some statements only."""

from __future__ import annotations

import re

from pgdyno.remedy._remedy import Case, Remedy, Risk
from pgdyno.spec.change import first_word

_LOSES_NOTHING = re.compile(
    r"(?:create\s+(?:unique\s+)?index|drop\s+index|create\s+statistics|drop\s+statistics|reindex"
    r"|analyze|analyse|vacuum|cluster|set)\b"
    # Storage parameters; names between quotes are gone here.
    r"|alter\s+(?:table|index)\s[\w.$\s]*\b(?:re)?set\s*\([^()]*\)\s*;?\s*$",
    re.IGNORECASE,
)
_UNLOGGED = re.compile(r"\bunlogged\b", re.IGNORECASE)
_TEXTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)


def _risk(case: Case) -> Risk:
    texts = [_TEXTS.sub(" ", each).strip() for each in case.change.sql["make"]]
    if any(_UNLOGGED.search(text) for text in texts):
        bound = "any crash, also of the server alone, leaves unlogged tables empty"
        return Risk("D3", bound)
    if all(_LOSES_NOTHING.match(text) for text in texts):
        return Risk("D0")
    words = ", ".join(sorted({first_word(each).upper() for each in case.change.sql["make"]}))
    return Risk("unknown", f"not known: pgdyno does not judge {words} of your own")


REMEDIES = (
    Remedy(
        id="own-sql",
        summary="run SQL of your own",
        kind="sql",
        durability_class="unknown",
        bound="not known: it depends on the statements",
        price="what the statements take: time, locks, disk space",
        sql=True,
        risk=_risk,
    ),
)
