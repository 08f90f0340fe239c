"""A disk that fills: with WAL that a slot or the archiver keeps, or with the data."""

from __future__ import annotations

from exam.model import Cause, Cell, Proof
from exam.scene import Scene


def _wal_bytes(scene: Scene) -> int:
    return sum(path.stat().st_size for path in scene.wal_dir.iterdir() if path.is_file())


def _kept(scene: Scene, by: str, *, holds: bool) -> Proof:
    kept = _wal_bytes(scene)
    text = f"pg_wal holds {kept >> 20} MB in files with max_wal_size = 64MB; {by}"
    return Proof(text, holds and kept > 128 << 20)


def _lost_slot(scene: Scene) -> Proof:
    rows = scene.query("select active from pg_replication_slots where slot_name = 'lost'")
    return _kept(scene, f"slots: {rows}", holds=rows == [(False,)])


def _archiver(scene: Scene) -> Proof:
    waiting = len(list((scene.wal_dir / "archive_status").glob("*.ready")))
    text = f"{waiting} segments are marked as ready for the archiver"
    return _kept(scene, text, holds=waiting > 4)


def _data(scene: Scene) -> Proof:
    (grown,) = scene.query("select pg_total_relation_size('journal')")[0]
    wal = _wal_bytes(scene)
    text = f"the table has {grown >> 20} MB on a disk of 1 GB, pg_wal {wal >> 20} MB"
    return Proof(text, grown > 10 << 20 and wal < 200 << 20)


CELL = Cell(
    "kept-wal",
    (
        Cause("lost-slot", ("slot-holds-wal",), _lost_slot),
        Cause("archiver-failing", ("archiver-behind",), _archiver),
        Cause("plain-growth", ("disk-filling",), _data),
    ),
)
