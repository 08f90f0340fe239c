"""Colours of the charts' series, made for both a white and a dark page.

Every colour keeps a contrast of at least 3 to 1 against either background (WCAG 2.1, 1.4.11), so a
chart needs no second palette; text and rules do, and take theirs from the style sheet. Colour never
speaks alone: lines differ in dash or place, decisions in marker and word.
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
    "rejected": (GREY, "x"),
    "taken back": (RED, "inverted_triangle"),
}
"""What became of a change: colour and marker."""

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
    "warning": ORANGE,
    "step": GREEN,
    "probe": GREY,
}
"""Kinds of event, in the order of their lanes."""


def event_colour(kind: str) -> str:
    """The colour of an event's kind."""
    return EVENTS.get(kind, GREY)
