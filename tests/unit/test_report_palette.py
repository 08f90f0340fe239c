"""Contrast of all colours on both pages, after WCAG 2.1: 3 to 1 for shapes, 4.5 for text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pgdyno.report
from pgdyno.report import palette, session_waits
from pgdyno.wait_events import BY_NAME

CSS = (Path(pgdyno.report.__file__).parent / "templates" / "report.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))
    for block in CSS.split("@media (prefers-color-scheme: dark)", 1)
)
SHAPES = {
    *palette.SERIES,
    *session_waits.colours(BY_NAME).values(),
    *palette.EVENTS.values(),
    *(colour for colour, _ in palette.DECISIONS.values()),
}
TEXTS = (
    *(("ink", back) for back in ("page", "raised", "warn-back", "bad-back")),
    *(("ink-soft", back) for back in ("page", "raised")),
    *((tone, "page") for tone in ("accent", "good", "warn", "bad")),
    ("page", "ink"),
)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.1 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", sorted(SHAPES))
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_series_stand_out_on_the_page(colour: str, scheme: dict[str, str]) -> None:
    assert contrast(colour, scheme["page"]) >= 3


@pytest.mark.parametrize(("ink", "back"), TEXTS)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable(ink: str, back: str, scheme: dict[str, str]) -> None:
    assert contrast(scheme[ink], scheme[back]) >= 4.5


def test_decisions_differ_by_more_than_colour() -> None:
    looks = {outcome: marker for outcome, (_, marker) in palette.DECISIONS.items()}
    assert len({looks[o] for o in ("kept", "offered", "rejected", "taken back")}) == 4
