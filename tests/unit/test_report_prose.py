"""Texts of reports: capitals and periods, and long texts cut at a word."""

from __future__ import annotations

import pytest

from pgdyno.report.words.prose import cut, sentence


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the disk is slow", "The disk is slow."),
        ("synchronous_commit = off helps", "synchronous_commit = off helps."),
        ("p99 is not known", "p99 is not known."),
        ("is it slow?", "Is it slow?"),
    ],
)
def test_a_sentence_has_a_capital_and_a_period(text: str, shown: str) -> None:
    assert sentence(text) == shown


@pytest.mark.parametrize(
    ("text", "letters_max", "shown"),
    [
        ("update accounts set n = 1", 40, "update accounts set n = 1"),
        ("update  accounts\n set n", 40, "update accounts set n"),
        ("update accounts set balance = 1", 20, "update accounts set…"),
        ("update accounts set balance = 1", 28, "update accounts set balance…"),
        ("a, b, and c", 7, "a, b…"),
        ("averylongwordwithoutaspace", 10, "averylong…"),
    ],
)
def test_long_texts_end_with_a_whole_word(text: str, letters_max: int, shown: str) -> None:
    assert cut(text, letters_max) == shown
    assert len(cut(text, letters_max)) <= letters_max
