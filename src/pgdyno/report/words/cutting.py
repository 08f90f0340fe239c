"""Texts cut to the width of a column or a label, at the end of a word."""

from __future__ import annotations


def cut(text: str, letters_max: int) -> str:
    """Return ``text`` on one line, of which a long one ends with a whole word and "…"; a word that
    takes half of the line is cut itself."""
    line = " ".join(text.split())
    if len(line) <= letters_max:
        return line
    kept = line[: letters_max - 1]
    words, _, _ = line[:letters_max].rpartition(" ")
    return f"{(words if len(words) >= letters_max // 2 else kept).rstrip(' ,;:(')}…"
