"""A server's log of a start: the reason of a refusal, and its problems."""

from __future__ import annotations

from pgdyno.drill._recovery import decisive_messages, first_problems

REFUSAL = """\
2026-01-01 10:00:00.000 UTC [1] LOG:  database system was interrupted; last known up at 10:00
2026-01-01 10:00:00.001 UTC [2] FATAL:  the database system is starting up
2026-01-01 10:00:00.002 UTC [1] LOG:  redo starts at 0/1000028
2026-01-01 10:00:00.003 UTC [1] WARNING:  page 3 of relation base/5/16384 is uninitialized
2026-01-01 10:00:00.003 UTC [1] CONTEXT:  WAL redo at 0/1000060 for Heap/INSERT: off: 1
2026-01-01 10:00:00.004 UTC [1] PANIC:  WAL contains references to
\tinvalid pages
2026-01-01 10:00:00.004 UTC [1] CONTEXT:  WAL redo at 0/1000090 for Heap/INSERT: off: 2
2026-01-01 10:00:00.005 UTC [3] LOG:  startup process was terminated by signal 6: Aborted
2026-01-01 10:00:00.006 UTC [3] FATAL:  something later
"""
CHECKPOINT = """\
LOG:  database system was not properly shut down; automatic recovery in progress
ERROR:  xlog flush request 0/5 is not satisfied --- flushed only to 0/4
CONTEXT:  writing block 8 of relation base/5/16397
FATAL:  checkpoint request failed
HINT:  Consult recent messages in the server log for details.
LOG:  startup process exited with exit code 1
"""


def test_the_decisive_line_comes_with_its_context() -> None:
    assert decisive_messages(REFUSAL) == (
        "PANIC: WAL contains references to invalid pages;"
        " CONTEXT: WAL redo at 0/1000090 for Heap/INSERT: off: 2"
    )
    assert decisive_messages(CHECKPOINT).startswith(
        "FATAL: checkpoint request failed; HINT: Consult"
    )
    assert decisive_messages(CHECKPOINT).endswith(
        "; after ERROR: xlog flush request 0/5 is not satisfied --- flushed only to 0/4"
    )
    assert decisive_messages("LOG:  database system is ready to accept connections") == ""


def test_problems_leave_out_messages_to_clients() -> None:
    problems = first_problems(REFUSAL)
    assert problems.startswith(
        "WARNING: page 3 of relation base/5/16384 is uninitialized; PANIC: WAL"
    )
    assert "starting up" not in problems
