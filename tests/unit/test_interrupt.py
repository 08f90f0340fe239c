"""Stop signals: one ends a session at any moment, and cleanup completes."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from patience import wait_until
from pgdyno.conduct import _interrupt
from pgdyno.conduct._interrupt import hold_stop_signals, stop_signals
from pgdyno.errors import Interrupted, PgdynoError, RunError, SetupError


@pytest.fixture(autouse=True)
def _as_in_the_foreground() -> Iterator[None]:
    """The tests themselves may run in the background, where Ctrl-C is ignored, or under nohup,
    where SIGHUP is."""
    ours = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in ours.items()}
    yield
    put_back = {number: signal.getsignal(number) for number in ours}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert put_back == ours


def press(number: signal.Signals = signal.SIGINT) -> None:
    signal.raise_signal(number)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_status_is_a_shell_s(number: signal.Signals, status: int) -> None:
    with pytest.raises(Interrupted) as caught, stop_signals():
        press(number)
    assert caught.value.message == f"interrupted by {number.name}"
    assert caught.value.exit_status == status


def test_who_goes_on_after_an_error_does_not_go_on_after_this() -> None:
    with pytest.raises(Interrupted), stop_signals(), suppress(PgdynoError, Exception):
        press()


def until_interrupted() -> None:
    """Do what a session does, until it is interrupted."""
    wait_until(lambda: False, "an interruption")


def test_one_that_another_error_replaces_is_raised_again() -> None:
    def library() -> None:
        try:
            press(signal.SIGTERM)
        finally:
            raise OSError("clean-up failed")

    @stop_signals()
    def session() -> None:
        with suppress(OSError):
            library()
        until_interrupted()

    with pytest.raises(Interrupted, match="SIGTERM"):
        session()


def test_one_that_a_finalizer_loses_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finalized:
        def __del__(self) -> None:
            press()

    @stop_signals()
    def session() -> None:
        Finalized()
        until_interrupted()

    discarded: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: discarded.append(lost.exc_type))
    with pytest.raises(Interrupted, match="SIGINT"):
        session()
    assert discarded == [Interrupted]


def test_one_that_is_lost_at_the_end_is_raised_there() -> None:
    with pytest.raises(Interrupted, match="SIGINT"), stop_signals(), suppress(Interrupted):
        press()


def _replaced(error: Exception) -> None:
    """Raise an error in place of the signal's, as pydantic does while it builds its validators."""
    with suppress(Interrupted):
        press()
    raise error


def test_one_in_whose_place_a_library_raises_an_error_ends_the_command() -> None:
    with pytest.raises(Interrupted, match="SIGINT"), stop_signals():
        _replaced(ValueError("Interrupted: interrupted by SIGINT"))


def test_an_error_of_pgdyno_says_more_than_a_signal_that_was_lost() -> None:
    with pytest.raises(RunError), stop_signals():
        _replaced(RunError("the server is gone", code="server-gone"))


@pytest.mark.parametrize("held", [False, True])
def test_one_that_has_left_is_not_sent_again(held: bool) -> None:
    with suppress(Interrupted), stop_signals():
        if held:
            hold_stop_signals()
        press()
    gc.collect()
    assert _interrupt._signals.again is None


def test_a_second_one_breaks_no_clean_up_off() -> None:
    done = []

    @stop_signals()
    def session() -> None:
        try:
            press()
        finally:
            press()
            with suppress(ZeroDivisionError):
                done.append(1 / 0)
            press(signal.SIGTERM)
            done.append(2)

    with pytest.raises(Interrupted, match="SIGINT"):
        session()
    assert done == [2]


def test_a_second_one_breaks_off_no_generator_that_the_first_has_closed() -> None:
    done = []

    def cuts() -> Iterator[int]:
        try:
            yield 1
        finally:
            press()
            done.append("put away")

    @stop_signals()
    def session() -> None:
        for _ in cuts():
            press()

    with pytest.raises(Interrupted):
        session()
    assert done == ["put away"]


def test_one_that_was_swallowed_is_not_the_last() -> None:
    @stop_signals()
    def session() -> None:
        with suppress(Interrupted):
            press()
        press()

    with pytest.raises(Interrupted):
        session()


def fine() -> None:
    """A session that comes to its end."""


def failing() -> None:
    raise SetupError("no server", code="x")


@pytest.mark.parametrize("end", [fine, failing])
def test_what_comes_while_an_inner_session_is_put_away_ends_the_outer_one(
    end: Callable[[], None],
) -> None:
    done = []

    @stop_signals()
    def inner() -> None:
        hold_stop_signals()
        press()
        done.append("put away")
        end()

    @stop_signals()
    def outer() -> None:
        with suppress(SetupError):
            inner()
        done.append("went on")

    with pytest.raises(Interrupted):
        outer()
    assert done == ["put away"]


def test_what_comes_at_the_very_end_is_told_then() -> None:
    done = []

    @stop_signals(hint="all is kept")
    def session() -> None:
        hold_stop_signals()
        press()
        press(signal.SIGTERM)
        done.append("put away")

    with pytest.raises(Interrupted) as caught:
        session()
    assert done == ["put away"]
    assert (caught.value.message, caught.value.hint) == ("interrupted by SIGINT", "all is kept")


def test_an_error_says_more_than_a_signal_after_it() -> None:
    @stop_signals()
    def session(end: Callable[[], None]) -> None:
        hold_stop_signals()
        if end is failing:
            press()
        end()

    with pytest.raises(SetupError):
        session(failing)
    session(fine)  # The signal is forgotten.


def test_one_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_signals():
        press(signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_before_there_is_a_session_it_is_one_line(number: signal.Signals) -> None:
    """The signal comes while the first of our modules is imported."""
    code = (
        "import os, runpy, signal, sys\n"
        f"signal.signal({number:d}, signal.SIG_DFL)\n"
        "class Striking:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pgdyno.cli':\n"
        f"            os.kill(os.getpid(), {number:d})\n"
        "sys.meta_path.insert(0, Striking())\n"
        "runpy.run_module('pgdyno', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert done.stderr == f"error: interrupted by {number.name}\n"


def test_a_signal_while_the_interpreter_ends_changes_no_status() -> None:
    program = """if True:
        import atexit, os, signal, sys
        @atexit.register
        def last():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
        sys.argv = ["pgdyno", "--version"]
        from pgdyno.__main__ import main
        main()
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done
