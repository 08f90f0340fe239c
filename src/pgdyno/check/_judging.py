"""Findings of the rules from the recorded looks of a check, and subjects that were not seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct

from pgdyno.facts.sight import Sight, Unseen
from pgdyno.looks.look import looks
from pgdyno.record import RunFile
from pgdyno.record.finding import SEVERITIES, Finding, Skip
from pgdyno.rules.rule import Found, Rule, rules_of_looks
from pgdyno.spec.sql_text import on_one_line


class NotLookedAt(Struct, frozen=True):
    """Something that a check could not see, all of it or a part."""

    subject: str
    why: str
    """The reason, without a period."""
    allow: str
    """A grant, an extension or a setting that would allow it; '' if nothing would."""
    rules: tuple[str, ...]
    """The rules that did not judge it."""


class Judgement(Struct, frozen=True):
    """The findings of the rules, and the subjects that no rule saw."""

    findings: tuple[Finding, ...]
    """The worst first; cleared and skipped ones come last."""
    not_looked_at: tuple[NotLookedAt, ...]


def judge(run: RunFile, found: Collection[str] = ()) -> Judgement:
    """Apply the rules to the looks that were recorded in ``run``.

    ``found`` are the rules that found something in the load of its window: a rule of looks that
    says the same is left out.
    """
    sight = Sight(run)
    unseen: dict[tuple[str, str, str], list[str]] = {}
    for subject, why, allow, users in _recorded(sight):
        unseen.setdefault((subject, why, allow), []).extend(users)
    findings = []
    for rule in rules_of_looks():
        if set(rule.covered_by) & set(found):
            continue
        try:
            findings.append(_finding(rule, sight))
        except Unseen as reason:
            users = unseen.setdefault((reason.subject, reason.why, reason.allow), [])
            users.append(rule.id)
            findings.append(Finding.skipped(rule.id, reason))
        except Skip as reason:
            findings.append(Finding.skipped(rule.id, reason))
    return Judgement(
        findings=tuple(sorted(findings, key=_order)),
        not_looked_at=tuple(
            NotLookedAt(*what, rules=tuple(dict.fromkeys(users))) for what, users in unseen.items()
        ),
    )


def _recorded(sight: Sight) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield the looks that were not taken, or not complete, with the rules that need them."""
    for look in looks():
        try:
            found = sight.look(look.name)
        except Unseen:
            continue  # The rules that need it say so.
        if found.why:
            users = [rule.id for rule in rules_of_looks() if look.name in (rule.looks or ())]
            yield look.subject, found.why, found.allow, users


def _finding(rule: Rule[Sight], sight: Sight) -> Finding:
    answer = rule.examine(sight)
    if not isinstance(answer, Found):
        return Finding(
            id=rule.id, status="cleared", sentence=answer.sentence, evidence=tuple(answer.evidence)
        )
    return Finding(
        id=rule.id,
        status="found",
        sentence=answer.sentence,
        confidence=answer.confidence,
        evidence=tuple(answer.evidence),
        false_positives=rule.false_positives,
        proposals=tuple(answer.proposals),
        advice=answer.advice,
        commands=tuple(map(on_one_line, answer.commands)),
        severity=answer.severity,
    )


def _order(finding: Finding) -> tuple[int, int, float, str]:
    status = ("found", "cleared", "skipped").index(finding.status)
    worst = SEVERITIES.index(finding.severity) if finding.severity else len(SEVERITIES)
    return status, worst, -(finding.confidence or 0.0), finding.id
