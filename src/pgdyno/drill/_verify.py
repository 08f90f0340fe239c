"""Verification after a fault: one outcome, and the check that decided it.

The order matters. The server is started and its recovery awaited. Then pages, the ledger, and
everything else that only reads are checked; only then is anything written. Finally the server is
shut down and its files are checked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

from msgspec.structs import replace

from pgdyno.drill._checking import CheckContext, Crashed, Stage, check_rules, run_check
from pgdyno.drill._evidence import interference, outside_kill
from pgdyno.drill._pages import newest_page_lsn
from pgdyno.drill._recovery import Recovery, first_problems, log_since, log_size, recover
from pgdyno.drill.model import Verified
from pgdyno.errors import SetupError, TrustError
from pgdyno.record.cut import Check, LedgerCount, Outcome

__all__ = ["Crashed", "verify"]

LEDGER = "ledger"
"""Name of the check that counts lost commits."""


def verify(crashed: Crashed, *, deep: bool = True) -> Verified:
    """Start the server that a fault left, run all checks, and return the outcome.

    Afterwards the cluster is shut down, or not running if it refused to start. ``deep`` also reads
    every table and index completely, and writes. Raises RunError when recovery does not end, and
    TrustError when the ack ledger has gaps or could not be compared.
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
        disturbed = interference(crashed.cluster, recovery.log)
        return replace(_refused(recovery), disturbed=disturbed)
    context = CheckContext(crashed, recovery, newest_lsn)
    try:
        checks, disturbed = _run_checks(context, log_start, deep=deep)
    finally:
        if crashed.cluster.running:
            crashed.cluster.stop("immediate")
    if disturbed:
        return Verified("refused", None, None, tuple(checks), disturbed=disturbed)
    _require_ledger(crashed, checks)
    outcome, seen_by = _outcome(checks, context.count)
    log = log_since(crashed.cluster, log_start)
    return Verified(
        outcome=outcome,
        ledger=context.count,
        recovery_s=recovery.seconds,
        checks=tuple(checks),
        seen_by=seen_by,
        server_said=first_problems(log) if outcome == "corrupt" else "",
    )


def _run_checks(context: CheckContext, log_start: int, *, deep: bool) -> tuple[list[Check], str]:
    """Run all checks; return them, and outside interference with the server meanwhile.

    The shutdown is between the checks of the running server and those of its files.
    """
    cluster = context.cluster
    rules = [rule for rule in check_rules() if deep or not rule.deep]
    with closing(context):
        running = [run_check(rule, context) for rule in rules if rule.stage < Stage.STOPPED]
    if disturbed := interference(cluster, log_since(cluster, log_start)):
        return running, disturbed
    shut_down = _shut_down(context.crashed)
    stopped = [run_check(rule, context) for rule in rules if rule.stage == Stage.STOPPED]
    disturbed = outside_kill(cluster, log_since(cluster, log_start))
    return [_start_check(context.recovery), *running, shut_down, *stopped], disturbed


def _require_ledger(crashed: Crashed, checks: Sequence[Check]) -> None:
    """Raise TrustError if the ledger was not compared, so that losses are unknown."""
    found = next(check for check in checks if check.name == LEDGER)
    if found.passed is None and all(load.label is not None for load in crashed.acks.loads):
        raise TrustError(f"the ledger could not be compared: {found.detail}", code="no-ledger")


def _refused(recovery: Recovery) -> Verified:
    check = Check(name="start", passed=False, detail=recovery.refusal, seconds=recovery.seconds)
    return Verified(
        outcome="corrupt" if recovery.ran else "refused",
        ledger=None,
        recovery_s=None,
        checks=(check,),
        seen_by=check.name,
        server_said=recovery.refusal,
    )


def _start_check(recovery: Recovery) -> Check:
    state = recovery.control_before.state
    detail = f'{recovery.sentence}; the control file said "{state}" before'
    return Check(name="start", passed=True, detail=detail, seconds=recovery.seconds)


def _shut_down(crashed: Crashed) -> Check:
    """Check that the server writes its last checkpoint; if not, it is damaged."""
    began = time.monotonic()
    problem = ""
    try:
        crashed.cluster.stop()
    except SetupError as error:
        problem = error.message
    control = crashed.cluster.control_data()
    passed = not problem and control.shut_down
    detail = problem or f'the control file says "{control.state}"'
    return Check(name="shutdown", passed=passed, detail=detail, seconds=time.monotonic() - began)


def _outcome(checks: Sequence[Check], count: LedgerCount | None) -> tuple[Outcome, str]:
    """Return the outcome and the check that decided it.

    Damage takes precedence over loss; of several failed checks, the ledger comes first.
    """
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
