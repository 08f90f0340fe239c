"""Verification after a fault: one outcome, and the check that saw it.

The order matters. First the server is started and recovery waited for; then pages are looked at,
the ledger, everything that only reads; only then is anything written; at last the server is shut
down and its files are checked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pgdyno.drill._checking import Crashed, Scene, Stage, check_rules, closing, make
from pgdyno.drill._interference import killed, outside_hand
from pgdyno.drill._pages import newest_page_lsn
from pgdyno.drill._recovery import Recovery, complaints, log_since, log_size, recover
from pgdyno.drill.model import Check, LedgerCount, Outcome, Verified
from pgdyno.errors import SetupError, TrustError

__all__ = ["Crashed", "verify"]

LEDGER = "ledger"
"""The name of the check that counts what is lost."""


def verify(crashed: Crashed, *, deep: bool = True) -> Verified:
    """Start what a fault left, look at everything, and say what became of it.

    Afterwards the cluster is shut down cleanly, or dead if it refused to start. ``deep`` also reads
    every table and index whole, and writes. Raises RunError when recovery does not end, and
    TrustError when the ack ledger itself has gaps or could not be compared.
    """
    if problems := crashed.acks.problems():
        raise TrustError(
            f"the ack ledger in {crashed.acks.directory} is damaged: {problems[0]}",
            code="acks-damaged",
        )
    log_start = log_size(crashed.cluster)
    newest_lsn = newest_page_lsn(crashed.cluster) if crashed.foreign_wal else None
    recovery = recover(crashed.cluster)
    if recovery.refused:
        hand = outside_hand(crashed.cluster, recovery.log)
        return replace(_refused(recovery), disturbed=hand)
    scene = Scene(crashed, recovery, newest_lsn)
    try:
        checks, hand = _look(scene, log_start, deep=deep)
    finally:
        if crashed.cluster.running:
            crashed.cluster.stop("immediate")
    if hand:
        return Verified("refused", None, None, tuple(checks), disturbed=hand)
    _require_ledger(crashed, checks)
    outcome, seen_by = _outcome(checks, scene.count)
    said = complaints(log_since(crashed.cluster, log_start)) if outcome == "corrupt" else ""
    return Verified(
        outcome=outcome,
        ledger=scene.count,
        recovery_s=recovery.seconds,
        checks=tuple(checks),
        seen_by=seen_by,
        server_said=said,
    )


def _look(scene: Scene, log_start: int, *, deep: bool) -> tuple[list[Check], str]:
    """All checks, with the shutdown between those of a server that runs and those of its files.

    And what somebody else did to the server meanwhile.
    """
    cluster = scene.crashed.cluster
    rules = [rule for rule in check_rules() if deep or not rule.deep]
    with closing(scene):
        running = [make(rule, scene) for rule in rules if rule.stage < Stage.STOPPED]
    if hand := outside_hand(cluster, log_since(cluster, log_start)):
        return running, hand
    shut_down = _shut_down(scene.crashed)
    stopped = [make(rule, scene) for rule in rules if rule.stage == Stage.STOPPED]
    hand = killed(cluster, log_since(cluster, log_start))
    return [_start_check(scene.recovery), *running, shut_down, *stopped], hand


def _require_ledger(crashed: Crashed, checks: Sequence[Check]) -> None:
    """Nothing is called clean because its ledger could not be read."""
    found = next(check for check in checks if check.name == LEDGER)
    if found.passed is None and all(load.label is not None for load in crashed.acks.loads):
        raise TrustError(f"the ledger could not be compared: {found.detail}", code="no-ledger")


def _refused(recovery: Recovery) -> Verified:
    check = Check("start", False, recovery.said, recovery.seconds)
    return Verified(
        outcome="corrupt" if recovery.ran else "refused",
        ledger=None,
        recovery_s=None,
        checks=(check,),
        seen_by=check.name,
        server_said=recovery.said,
    )


def _start_check(recovery: Recovery) -> Check:
    detail = f'{recovery.sentence}; the control file had said "{recovery.before.state}"'
    return Check("start", True, detail, recovery.seconds)


def _shut_down(crashed: Crashed) -> Check:
    """A server that cannot write its last checkpoint is damaged, however well it answered."""
    began = time.monotonic()
    problem = ""
    try:
        crashed.cluster.stop()
    except SetupError as error:
        problem = error.message
    control = crashed.cluster.control_data()
    passed = not problem and control.shut_down
    detail = problem or f'the control file says "{control.state}"'
    return Check("shutdown", passed, detail, time.monotonic() - began)


def _outcome(checks: Sequence[Check], count: LedgerCount | None) -> tuple[Outcome, str]:
    """Damage beats loss; of several checks that saw damage, the ledger comes first."""
    failed = [check.name for check in checks if check.passed is False]
    only_lost = count is not None and not count.inconsistent
    if LEDGER in failed and only_lost:
        failed.remove(LEDGER)
        if not failed:
            return "lost", LEDGER
    if LEDGER in failed:
        return "corrupt", LEDGER
    if failed:
        return "corrupt", failed[0]
    return "clean", ""
