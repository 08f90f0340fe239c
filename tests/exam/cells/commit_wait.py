"""Commits that wait: a slow flush, a delay that a setting asks for, a standby far away."""

from __future__ import annotations

from exam.model import Cause, Cell, Proof
from exam.proofs import commit_ms, flush_ms
from exam.scene import Scene, Seen

FLUSHES = ("WALWrite", "WalWrite", "WALSync", "WalSync", "CommitDelay")


def _flushes(seen: Seen) -> bool:
    return seen.wait in FLUSHES


def _slow_flush(scene: Scene) -> Proof:
    took_ms = flush_ms(scene.wal_dir)
    wanted_ms = float(scene.fields["disk"]["wal"].partition("flush=")[2].removesuffix("ms"))
    text = f"a flush by the harness on the WAL's disk takes {took_ms:.1f} ms"
    return Proof(text, took_ms >= 0.9 * wanted_ms, scene.share(_flushes))


def _commit_delay(scene: Scene) -> Proof:
    delayed_ms, plain_ms = commit_ms(scene), commit_ms(scene, "commit_delay = 0")
    text = f"a commit takes {delayed_ms:.1f} ms, {plain_ms:.1f} ms with commit_delay = 0"
    asked_ms = int(scene.fields["server"]["settings"]["commit_delay"]) / 1000
    # Until version 18, sessions sleep with commit_delay without a wait event, holding the lock that
    # the others wait for.
    owned = scene.share(lambda seen: _flushes(seen) or seen.computes)
    return Proof(text, delayed_ms - plain_ms >= 0.7 * asked_ms, owned)


def _standby(scene: Scene) -> Proof:
    waits_ms = commit_ms(scene)
    local_ms = commit_ms(scene, "synchronous_commit = local")
    text = f"a commit takes {waits_ms:.1f} ms, {local_ms:.1f} ms with synchronous_commit = local"
    round_trip_ms = 2 * float(scene.fields["standby"]["delay"].removesuffix("ms"))
    owned = scene.share(lambda seen: seen.wait in ("SyncRep", "SyncRepWaitForLSN"))
    return Proof(text, waits_ms - local_ms >= 0.7 * round_trip_ms, owned)


CELL = Cell(
    "commit-wait",
    (
        Cause("slow-flush", ("commit-flush",), _slow_flush, scaled=("disk.wal",)),
        Cause(
            "commit-delay",
            ("commit-delay",),
            _commit_delay,
            scaled=("server.settings.commit_delay",),
        ),
        Cause("standby", ("sync-replication",), _standby, scaled=("standby.delay",)),
    ),
)
