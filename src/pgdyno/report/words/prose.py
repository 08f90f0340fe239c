"""Capitals and periods: findings and errors are stored without them."""

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
