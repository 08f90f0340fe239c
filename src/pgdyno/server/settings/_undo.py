"""The undo record: what undoes the changes of a user's server, written before the first change.

It identifies the server (without a password) and lists, for every setting that pgdyno changes, the
former value of ALTER SYSTEM (null if unset) and the values that pgdyno has set. So a value that
another session has set meanwhile is recognised. For SQL of the user's it has the statements that
undo it, and how far it has come.

There are two copies. The file in pgdyno's state directory is flushed before the server is changed,
and removed only when everything is restored. Its lock file is held by the run and its guardian: a
record whose lock is free belongs to a killed run. A guardian that retries releases the lock
between two tries, so that another pgdyno can restore with other credentials. The mark is the
parameter ``pgdyno.undo`` in the server's own postgresql.auto.conf, visible to every pgdyno that
connects, of any user on any machine. Setting it needs a privilege that not every role has, so it
may be missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from pgdyno.errors import SetupError
from pgdyno.json_types import Json
from pgdyno.server.connecting.conninfo import ConnInfo
from pgdyno.server.connecting.identity import Identity
from pgdyno.server.directories import undo_dir
from pgdyno.server.locks import try_lock
from pgdyno.server.settings.setting_values import unquoted_list
from pgdyno.spec.change import title_of_sql

_FORMATS = (2, 3)
"""Those that are read; the last is written. One without SQL is 2."""
MARK = "pgdyno.undo"
"""The parameter that marks a server whose settings pgdyno has changed."""


class ChangedSetting(Struct):
    """A setting that pgdyno has changed, or is about to."""

    before: str | None
    """Former value of ALTER SYSTEM; ``None`` if unset."""
    ours: set[str] = field(default_factory=set)
    """Values that pgdyno has set."""
    before_known: bool = True
    """False for a text known only from a mark, which omits texts because they may be secrets."""

    def owns(self, held: str | None) -> bool:
        """True if ALTER SYSTEM's present value was set by pgdyno."""
        if held is None:
            return False
        return any(unquoted_list(held) == unquoted_list(each) for each in self.ours)


class UndoRecord(Struct):
    """The changes of one server by one run of pgdyno."""

    run: str
    server: Identity | None
    """Identity of the server; ``None`` until the first connection."""
    conninfo: ConnInfo
    settings: dict[str, ChangedSetting] = field(default_factory=dict)
    marked: bool = False
    """True if the server has the mark."""
    pid: int | None = None
    """PID of the run."""
    sql: RecordedSql | None = None
    """SQL of the user's."""
    has_other_sql: bool = False
    """True if there is SQL that is known only from a mark, which does not have its text."""

    @property
    def names(self) -> list[str]:
        """The settings, and the SQL in one line, for messages."""
        of_sql = [self.sql.title] if self.sql else []
        return [*self.settings, *of_sql, *(["a change by SQL"] if self.has_other_sql else [])]

    @classmethod
    def new(cls, conninfo: ConnInfo) -> UndoRecord:
        """Return an empty record for this run."""
        return cls(secrets.token_hex(4), None, conninfo, pid=os.getpid())

    def add(self, before: Mapping[str, str | None], wanted: Mapping[str, str]) -> bool:
        """Add values that will be set; True if the record has changed."""
        new = False
        for name, value in wanted.items():
            changed = self.settings.setdefault(name, ChangedSetting(before[name]))
            new |= value not in changed.ours
            changed.ours.add(value)
        return new

    def to_json(self) -> dict[str, object]:
        """Return the record for the file and the guardian, without a password."""
        return {
            "format": _FORMATS[-1],
            "run": self.run,
            "server": self.server.to_json() if self.server else None,
            "conninfo": {
                "host": self.conninfo.host,
                "hostaddr": self.conninfo.hostaddr,
                "port": self.conninfo.port,
                "user": self.conninfo.user,
                "database": self.conninfo.database,
                "options": _harmless(self.conninfo),
            },
            "marked": self.marked,
            "pid": self.pid,
            "sql": self.sql.to_json() if self.sql else None,
            "settings": {
                name: {"before": changed.before, "ours": sorted(changed.ours)}
                for name, changed in self.settings.items()
            },
        }

    @classmethod
    def from_json(cls, fields: Json) -> UndoRecord:
        """Return the record in a file's fields; KeyError, TypeError or ValueError if invalid."""
        if fields["format"] not in _FORMATS:
            raise ValueError
        return cls(
            run=str(fields["run"]),
            server=Identity.from_json(fields["server"]),
            conninfo=ConnInfo(password=None, **fields["conninfo"]),
            settings={
                str(name): ChangedSetting(each["before"], set(each["ours"]))
                for name, each in fields["settings"].items()
            },
            marked=bool(fields["marked"]),
            pid=fields["pid"],
            sql=RecordedSql.from_json(fields["sql"]) if fields.get("sql") else None,
        )

    def mark(self, texts: Iterable[str]) -> str:
        """Return the mark for the server; values of the settings in ``texts`` are only hashed."""
        hidden = {*texts}
        shown = {
            name: _marked_text(changed) if name in hidden else [changed.before, *changed.ours]
            for name, changed in self.settings.items()
        }
        of_sql = {"sql": True} if self.sql else {}
        return json.dumps({"run": self.run, "settings": shown, **of_sql})

    @classmethod
    def from_mark(cls, mark: str, server: Identity, conninfo: ConnInfo) -> UndoRecord:
        """Return the record in a server's mark; SetupError if pgdyno did not write it."""
        try:
            fields = json.loads(mark)
            settings = {
                str(name): _changed_from_mark(values) for name, values in fields["settings"].items()
            }
            record = cls(str(fields["run"]), server, conninfo, settings, marked=True)
            record.has_other_sql = bool(fields.get("sql"))
            return record
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            raise SetupError(
                f"the server's parameter {MARK} cannot be read: {mark[:80]}",
                code="undo-mark",
                hint=f"check what ALTER SYSTEM has set there, then ALTER SYSTEM RESET {MARK}",
            ) from None


def _marked_text(changed: ChangedSetting) -> dict[str, object]:
    digests = [_digest(value) for value in changed.ours]
    return {"nothing_before": changed.before is None, "ours": digests}


def _changed_from_mark(values: Any) -> ChangedSetting:
    if isinstance(values, list):
        return ChangedSetting(values[0], set(values[1:]))
    digests = frozenset(values["ours"])
    return _ChangedText(None, set(), bool(values["nothing_before"]), digests)


class _ChangedText(ChangedSetting):
    """A text setting of whose values only digests are known."""

    digests: frozenset[str] = frozenset()

    def owns(self, held: str | None) -> bool:
        return held is not None and _digest(held) in self.digests


def _digest(value: str) -> str:
    return hashlib.sha256(unquoted_list(value).encode()).hexdigest()[:16]


class UndoFile:
    """The file of a record, and its lock."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.lock = lock
        """Descriptor, which a guardian inherits, so that either process holds the lock."""

    @classmethod
    def of(cls, record: UndoRecord) -> UndoFile:
        """Return the locked file for a new record; nothing is written yet."""
        assert record.server is not None
        path = undo_dir() / f"{record.server.system_identifier}-{record.run}.json"
        file = cls.try_take(path)
        assert file is not None
        return file

    @classmethod
    def try_take(cls, path: Path) -> UndoFile | None:
        """Lock the file of a killed run; ``None`` if another process holds the lock."""
        lock = try_lock(path.with_suffix(".lock"))
        return None if lock is None else cls(path, lock)

    def write(self, record: UndoRecord) -> None:
        """Write the record and flush it; SetupError if that fails."""
        try:
            _write_durably(self.path, json.dumps(record.to_json(), indent=1))
        except OSError as error:
            raise _not_writable(self.path, error) from None

    def remove(self) -> None:
        """Remove the record after everything is restored.

        Errors are ignored: the next run finds that nothing in the record is still changed.
        """
        for suffix in (".json", ".part", ".lock"):
            with suppress(OSError):
                self.path.with_suffix(suffix).unlink()

    def lend(self, pause_s: float) -> bool:
        """Release the lock for a pause, in which another pgdyno may take it and restore.

        Returns when this process has the lock again; False if the record has been removed.
        """
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        while True:
            time.sleep(pause_s)
            if not self.path.exists():
                return False
            with suppress(BlockingIOError):
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True

    def close(self) -> None:
        """Release the lock; the file stays if it was not removed."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1
        if not self.path.exists():
            with suppress(OSError):
                self.path.with_suffix(".lock").unlink()


def undo_files() -> Iterator[Path]:
    """Return the files of all records, of running and of killed runs."""
    return iter(sorted(undo_dir().glob("*.json")))


def read_undo(path: Path) -> UndoRecord:
    """Read the record in a file; SetupError if it is damaged."""
    try:
        return UndoRecord.from_json(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise SetupError(
            f"the undo record {path} cannot be read",
            code="undo-file",
            hint="check what ALTER SYSTEM has set on that server, then delete the file",
        ) from None


def _harmless(conninfo: ConnInfo) -> dict[str, str]:
    return {name: value for name, value in conninfo.options.items() if "password" not in name}


def _not_writable(path: Path, error: OSError) -> SetupError:
    return SetupError(
        f"the undo record {path} cannot be written: {error.strerror}",
        code="undo-file",
        hint="no setting is changed without it; set PGDYNO_HOME to another directory",
    )


def _write_durably(path: Path, text: str) -> None:
    """Replace the file atomically, also with respect to a crash of the machine."""
    partial = path.with_suffix(".part")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


State = Literal["making", "begun", "made", "undoing", "undone"]


class RecordedSql(Struct, frozen=True):
    """Statements that a run executes on a user's server, and those that undo them."""

    make: tuple[str, ...]
    undo: tuple[str, ...]
    """Those that are left to be run."""
    database: str
    schemas: tuple[str, ...]
    """Those in which the statements find names without a schema."""
    state: State = "undone"
    """Its progress:

    - making: made if the transaction ``xid`` is committed;
    - begun: some of it may be made, by statements that run outside a transaction;
    - made: it is in force;
    - undoing: undone if the transaction ``xid`` is committed; without one, the first of ``undo``
      may have been run;
    - undone: nothing of it is in force.
    """
    xid: str | None = None

    @property
    def title(self) -> str:
        """The change in one line."""
        return title_of_sql(self.make)

    def at(self, state: State, xid: str | None = None) -> RecordedSql:
        """Return it in another state."""
        return replace(self, state=state, xid=xid)

    def within(self, schemas: tuple[str, ...]) -> RecordedSql:
        """Return it with the schemas in which names are found."""
        return replace(self, schemas=schemas)

    def settled(self, *, committed: bool) -> RecordedSql:
        """Return it after the end of the transaction that was under way."""
        before: State = "made" if self.state == "undoing" else "undone"
        after: State = "undone" if self.state == "undoing" else "made"
        return self.at(after if committed else before)

    def to_json(self) -> dict[str, object]:
        """Return the fields for an undo record."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Json) -> RecordedSql:
        """Return the statements in an undo record; KeyError, TypeError or ValueError if invalid."""
        if fields["state"] not in get_args(State):
            raise ValueError
        lists = {name: tuple(map(str, fields[name])) for name in ("make", "undo", "schemas")}
        return cls(**{**fields, **lists})
