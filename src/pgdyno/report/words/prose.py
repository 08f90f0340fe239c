"""Capitals and periods, which findings and errors are stored without, and texts cut to a width."""

from __future__ import annotations


def sentence(text: str) -> str:
    """Return ``text`` with a capital and a period."""
    text = capital(text.strip())
    return f"{text}{'' if text[-1] in '.!?…:' else '.'}" if text else ""


def capital(text: str) -> str:
    """Return ``text`` with a capital, unless it begins with the name of a setting or a variant, a
    percentile or a unit."""
    first = text.split(" ", 1)[0].rstrip(",")
    is_symbol = first == "ms" or (first[:1] == "p" and first[1:2].isdigit())
    return (
        text
        if is_symbol or any(sign in first for sign in "_./")
        else f"{text[:1].upper()}{text[1:]}"
    )


def cut(text: str, letters_max: int) -> str:
    """Return ``text`` on one line, of which a long one ends with a whole word and "…"; a word that
    takes half of the line is cut itself."""
    line = " ".join(text.split())
    if len(line) <= letters_max:
        return line
    kept = line[: letters_max - 1]
    words, _, _ = line[:letters_max].rpartition(" ")
    return f"{(words if len(words) >= letters_max // 2 else kept).rstrip(' ,;:(')}…"
