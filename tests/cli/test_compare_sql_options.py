"""``--sql`` and ``--undo-sql`` that cannot be a change are refused before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Pgdyno = Callable[..., Any]
INDEX = ("--sql", "create index i on t (c)")
DROP = ("--undo-sql", "drop index i")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (INDEX, "--sql requires --undo-sql"),
        (DROP, "--undo-sql requires --sql"),
        (("--sql", "  ", *DROP), "--sql is empty"),
        ((*INDEX, "--undo-sql", "; --"), "--undo-sql ; --: is empty"),
        (("--sql", "begin", *DROP), "--sql begin: begins or ends a transaction"),
        (("--sql", "copy t from stdin", *DROP), "--sql copy t from stdin: copies from or to"),
        (("--sql", "\\i change.sql", *DROP), "--sql \\i change.sql: is a command of psql, not SQL"),
        (("--sql", "select '\x1b[2J'", "--undo-sql", ""), "--undo-sql is empty"),
        ((*INDEX, *DROP, "--sql", "\udcff"), "--sql \\xff: is not UTF-8"),
        (
            (*INDEX, *DROP, "--profile", "cautious"),
            "--sql cannot be combined with --profile, which is the changed side",
        ),
        (
            (*INDEX, *DROP, "--against", "17"),
            "--sql cannot be combined with --against, which is the changed side",
        ),
        ((), "nothing to compare: no change is given"),
    ],
)
def test_refused(pgdyno: Pgdyno, words: tuple[str, ...], message: str) -> None:
    said = pgdyno("compare", "tpcb-like", *words)
    assert said.status == 1
    assert said.err.partition("error: ")[2].startswith(message), said.err
