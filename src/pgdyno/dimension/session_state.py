"""Settings of which a session keeps nothing, and thereby all others, of which it may.

A session that was there before a change may go on with what it made under the value before it: a
prepared statement and a function keep their plans, whatever the planner's settings become
(plancache.c), a text that was analysed keeps its query identifier, and libraries, connections and
settings of the contexts ``backend`` and ``superuser-backend`` are of the time when the session
began. Which settings can do so is not to be listed: versions and extensions add to them. So the
table has those of which it is known that none can, and every other one is measured with new
sessions.

The kinds are those of the column ``category`` of pg_settings, whose text is no basis for a
decision: the server translates it, and versions name it differently. A test compares the table with
it on servers of several versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_KEPT_BY_NONE: Mapping[str, str] = {
    # Read for each record that is inserted, each commit and each flush (xlog.c, xact.c), or by the
    # processes that write, keep and summarize WAL.
    "write-ahead log": r"synchronous_commit|commit_\w+|fsync|full_page_writes|wal_\w+"
    r"|m(in|ax)_wal_size|summarize_wal",
    # Read by the checkpointer.
    "checkpoints": r"checkpoint_\w+",
    # Read by the archiver and the startup process.
    "archiving and recovery": r"archive_\w+|restore_command|recovery_\w+|trace_recovery_messages",
    # Read by WAL senders and receivers, workers of subscriptions, and the startup process of a
    # standby; whether a commit waits for a standby is in shared memory (syncrep.c).
    "replication": r"synchronous_standby_names|synchronized_standby_slots|sync_replication_slots"
    r"|max_slot_wal_keep_size|idle_replication_slot_timeout|hot_standby_feedback"
    r"|max_standby_\w+_delay|primary_\w+|promote_trigger_file"
    r"|max_(sync|parallel_apply)_workers_per_subscription",
    # Read by the background writer.
    "background writer": r"bgwriter_\w+",
    # Read by the launcher and the workers of autovacuum, and when a VACUUM begins.
    "vacuum": r"autovacuum(_\w+)?|vacuum_\w+",
    # Read when a session begins to wait, or takes a lock.
    "lock management": r"deadlock_timeout|max_pred_locks_per_\w+",
    # Read for each statement, transaction or event that is logged or counted; but for those that
    # are about the beginning of a session.
    "log and statistics": r"log_(?!connections|disconnections|hostname)\w+|track_\w+",
}
_NOT_KEPT = "|".join(_KEPT_BY_NONE.values())


def kept_by_sessions(names: Iterable[str]) -> list[str]:
    """Return those of the named settings of which a session may keep something, so that only a new
    session has a change of them whole."""
    return [name for name in names if not re.fullmatch(_NOT_KEPT, name.lower())]
