"""The server's account: its creation, and short commands under it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pgdyno.server.local import account
from pgdyno.server.local.account import run_as, under
from pgdyno.server.locks import try_lock

UNTIL_THE_SECOND_TIME = 'test -e "$0" && exit 3; touch "$0"; kill -{number:d} $$'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_signal_to_the_group_ends_is_run_again(tmp_path: Path, number: int) -> None:
    """As a second Ctrl-C does when it meets the command before that is in its own session."""
    script = UNTIL_THE_SECOND_TIME.format(number=number)
    assert run_as(None, ["sh", "-c", script, tmp_path / "begun"]).returncode == 3


def test_what_is_killed_is_not_run_again(tmp_path: Path) -> None:
    script = UNTIL_THE_SECOND_TIME.format(number=signal.SIGKILL)
    done = run_as(None, ["sh", "-c", script, tmp_path / "begun"])
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("by_chroot", [True, False])
def test_it_has_the_account_and_no_other_group(
    by_chroot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = account.server_account()
    if owner is None:
        pytest.skip("only root runs commands under another account")
    if not by_chroot:
        monkeypatch.setattr(account, "_chroot_changes_to", lambda _account: False)
    assert (under(owner, ["id"])["args"] == ["id"]) == (not by_chroot)
    script = "id -u; id -G; pwd; locale | grep LC_ALL; ps -o sid= -p $$ | grep -cw $$; exit 7"
    done = run_as(owner, ["sh", "-c", script])
    said = [str(owner.uid), str(owner.gid), "/", "LC_ALL=C", "1"]
    assert (done.returncode, done.stdout.splitlines()) == (7, said)


def test_one_pgdyno_at_a_time_creates_the_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[account.ServerAccount] = []

    def create() -> account.ServerAccount:
        assert try_lock(tmp_path / "lock") is None
        there.append(account.ServerAccount("pgdyno", 990, 990))
        return there[-1]

    monkeypatch.setattr(account, "_CREATION_LOCK", tmp_path / "lock")
    monkeypatch.setattr(account, "_look_up", lambda name: there[-1] if there else None)
    monkeypatch.setattr(account, "_create", create)
    assert account._created() == account._created()
    assert len(there) == 1, "the second finds what the first has made"
