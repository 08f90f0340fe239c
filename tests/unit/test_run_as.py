"""Short commands under the server's account."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pgdyno.server.local.account import run_as

UNTIL_THE_SECOND_TIME = 'test -e "$0" && exit 3; touch "$0"; kill -{number:d} $$'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_signal_to_the_group_ends_is_run_again(tmp_path: Path, number: int) -> None:
    """As a second Ctrl-C does when it meets the command before that is in its own session."""
    script = UNTIL_THE_SECOND_TIME.format(number=number)
    # Under nohup, or in the background of a script, it is ignored, and children inherit that.
    before = signal.signal(number, signal.default_int_handler)
    try:
        assert run_as(None, ["sh", "-c", script, tmp_path / "begun"]).returncode == 3
    finally:
        signal.signal(number, before)


def test_what_is_killed_is_not_run_again(tmp_path: Path) -> None:
    script = UNTIL_THE_SECOND_TIME.format(number=signal.SIGKILL)
    done = run_as(None, ["sh", "-c", script, tmp_path / "begun"])
    assert done.returncode == -signal.SIGKILL
