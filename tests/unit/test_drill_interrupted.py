"""Ctrl-C while a cut is verified ends the drill; it is no finding about the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from pgdyno.drill._checking import CheckRule, Stage, make
from pgdyno.drill._recovery import recover
from pgdyno.errors import Interrupted, SetupError
from pgdyno.server.local.controldata import ControlData


def stopped(_: Any) -> NoReturn:
    raise Interrupted("interrupted by SIGINT")


def test_a_check_does_not_swallow_it() -> None:
    scene: Any = None
    with pytest.raises(Interrupted):
        make(CheckRule("readable", Stage.READING, stopped), scene)


def test_an_error_of_the_server_is_a_finding() -> None:
    def fails(_: Any) -> NoReturn:
        raise SetupError("the program is gone", code="x")

    scene: Any = None
    check = make(CheckRule("readable", Stage.READING, fails), scene)
    assert (check.passed, check.detail) == (False, "the program is gone")


def test_a_start_does_not_swallow_it(tmp_path: Path) -> None:
    class Starting:
        log_path = tmp_path / "server.log"
        start = stopped
        control_data = ControlData

    cluster: Any = Starting()
    with pytest.raises(Interrupted):
        recover(cluster)
