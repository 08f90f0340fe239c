"""Colours of the charts, for light and dark pages.

Every colour has a contrast of at least 3 to 1 against both backgrounds (WCAG 2.1, 1.4.11), so the
charts need only one palette. Text and rules take their colours from the style sheet. Nothing is
shown by colour alone: lines also differ in dash or position, decisions in marker and word.
"""

from __future__ import annotations

BLUE = "#2f7ed8"
GREEN = "#2e9455"
ORANGE = "#cf7216"
RED = "#d64545"
PURPLE = "#8a63d8"
TEAL = "#158c95"
GREY = "#7b8592"
PINK = "#cc4f9b"
BROWN = "#a1743d"
OLIVE = "#7c8a1d"

SERIES = (BLUE, ORANGE, TEAL, PURPLE, BROWN, PINK, OLIVE, RED, GREEN, GREY)

DECISIONS = {
    "kept": (GREEN, "circle"),
    "still earns": (GREEN, "circle"),
    "offered": (ORANGE, "diamond"),
    "inconclusive": (ORANGE, "square"),
    "rejected": (GREY, "x"),
    "taken back": (RED, "inverted_triangle"),
}
"""Colour and marker of each decision about a change."""

EVENTS = {
    "trial": PURPLE,
    "checkpoint": BLUE,
    "vacuum": OLIVE,
    "setting": BROWN,
    "restart": RED,
    "sql": TEAL,
    "fault": RED,
    "stall": RED,
    "drop": RED,
    "change": PINK,
    "level": PINK,
    "gap": RED,
    "warning": ORANGE,
    "step": GREEN,
    "probe": GREY,
    "own": GREY,
}
"""Colours of the kinds of events, in the order of their lanes."""


def event_colour(kind: str) -> str:
    """Return the colour of a kind of event."""
    return EVENTS.get(kind, GREY)
