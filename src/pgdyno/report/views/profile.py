"""Profiles in words: the lines with their effects, and the shortest profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.report.view import BlankLine, Commands, Part, Section, Terms, View
from pgdyno.report.words.tables import Table, figures_table

if TYPE_CHECKING:
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.compare import CompareResult, ProfileLine

HEAD = ("line", "setting", "effect", "class", "")


def rows(result: CompareResult) -> list[list[str]]:
    """Return a row for each line of the profile, those that are kept first."""
    ordered = sorted(result.lines, key=lambda each: (not each.kept, each.line))
    return [
        [
            str(each.line),
            f"{each.setting} = {each.value}",
            _effect(each),
            each.durability_class,
            "kept" if each.kept else _short(each),
        ]
        for each in ordered
    ]


def _effect(each: ProfileLine) -> str:
    return numbers.effect(each.effect.ratio, *each.effect.ci95) if each.effect else ""


def _short(each: ProfileLine) -> str:
    """Return why a line was left out, without the figures that stand beside it."""
    others = len(each.taken_back_with)
    return f"{each.reason} (with {others} other lines)" if others else each.reason


def sentences(result: CompareResult) -> dict[str, str]:
    """Return label and sentence of what is said of a profile; empty ones are left out."""
    said = {}
    if (profile := result.profile) is not None:
        said["left out"] = "; ".join(profile.left_out)
        said["remarks"] = "; ".join(profile.remarks)
    if (ablation := result.ablation) is not None:
        said["lines"] = ablation.sentence
        said["chance"] = ablation.chance
    return {label: text for label, text in said.items() if text}


def tables(result: CompareResult) -> list[Table]:
    """Return the table of the page."""
    return [figures_table("Lines of the profile", HEAD, rows(result))] if result.lines else []


def _sections(summary: RunSummary) -> list[Section]:
    result: CompareResult | None = summary.result_of("compare")
    if result is None or not result.profile:
        return []
    parts: list[Part] = [BlankLine(), *tables(result), Terms(sentences(result))]
    if result.shortest:
        parts += [BlankLine(), Commands(result.shortest.splitlines())]
    return [Section("profile", "Profile", parts)]


VIEW = View("profile", _sections)
