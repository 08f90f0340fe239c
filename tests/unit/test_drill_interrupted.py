"""Ctrl-C while a cut is verified ends the drill; it is no finding about the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from pgdyno.drill._checking import CheckRule, Stage, run_check
from pgdyno.drill._recovery import recover
from pgdyno.errors import Interrupted, SetupError
from pgdyno.server.local.controldata import ControlData


def stopped(_: Any) -> NoReturn:
    raise Interrupted("interrupted by SIGINT")


def test_a_check_does_not_swallow_it() -> None:
    context: Any = None
    with pytest.raises(Interrupted):
        run_check(CheckRule("readable", Stage.READING, stopped), context)


def test_an_error_of_the_server_is_a_finding() -> None:
    def fails(_: Any) -> NoReturn:
        raise problem

    problem = SetupError("the binary is gone", code="x")
    context: Any = None
    check = run_check(CheckRule("readable", Stage.READING, fails), context)
    assert (check.passed, check.detail) == (False, problem.message)


def test_a_start_does_not_swallow_it(tmp_path: Path) -> None:
    class Starting:
        log_path = tmp_path / "server.log"
        start = stopped
        control_data = ControlData

    cluster: Any = Starting()
    with pytest.raises(Interrupted):
        recover(cluster)
