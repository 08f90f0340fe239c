"""The decision of ``pgdyno govern``: what its HTTP server answers, and prints with JSON."""

from typing import Literal

from pydantic import ConfigDict

from pgdyno.record.part import Part
from pgdyno.results.marks import GovernMarks, Of

Kind = Literal["go", "slow", "pause"]


class Worst(Part):
    """The measure that decides"""

    of: Of
    database: str | None
    """null: of the whole server, as the space for multixact members is"""
    age: int
    """In IDs; half of the members in use, of which there is room for twice as many, so that the
    marks are the same for all three"""
    share: float
    """Of the age at which the server stops assigning IDs"""


class DatabaseAge(Part):
    database: str
    connectable: bool = True
    """false: nobody can connect to it, as to template0, and autovacuum alone vacuums it"""
    xid_age: int
    mxid_age: int


class RelationAge(Part):
    database: str
    relation: str
    """With its schema; for a TOAST table, that of its table"""
    toast: bool
    temporary: bool
    """true: only the session that owns it can vacuum it"""
    xid_age: int
    mxid_age: int
    size_bytes: int
    may_vacuum: bool
    """false: the governor's role may not vacuum it"""


class MemberSpace(Part):
    """Space for the members of multixacts, by its files"""

    used: int
    share: float


class Burn(Part):
    """IDs assigned per second over the last minute, and the time left at this rate; null: never, or
    not known yet; 0: reached"""

    xids_s: float | None
    """null, as the next: fewer than two looks"""
    mxids_s: float | None
    to_low_s: float | None
    to_high_s: float | None
    to_forced_vacuum_s: float | None
    """autovacuum_freeze_max_age, from which autovacuum freezes whatever it is set to"""
    to_failsafe_s: float | None
    to_stop_s: float | None
    """The age at which the server refuses to assign IDs"""


class Pin(Part):
    """A holder of old rows: they cannot be frozen until it lets them go"""

    kind: Literal["slot", "prepared transaction", "standby", "session"]
    name: str
    age: int
    detail: str
    blocks: bool
    """true: as long as it is there, no vacuum brings the age below the low mark"""
    advice: str


class Pause(Part):
    for_s: float
    """Its time so far"""
    until_age: int
    """The age below which it ends"""


class Vacuuming(Part):
    """With --vacuum: the tables that the governor vacuums while loaders pause"""

    running: str | None
    done: int
    held: int = 0
    """Tables left out for now: something keeps their old rows, and a vacuum would leave them, or
    has left them, above the low mark"""
    failed: tuple[str, ...]
    """Tables that could not be vacuumed, with the reason"""


class GovernDecision(Part):
    """A decision for loaders, and what it rests on"""

    model_config = ConfigDict(title="pgdyno govern: a decision")

    schema_version: Literal[1]
    decision: Kind
    """slow: of each second, loaders work the part ``share``"""
    share: float
    """1: at full speed; 0: not at all"""
    delay_per_s: float
    """Seconds to rest after each second of work; 0 with go, and without a meaning with pause"""
    known: bool
    """false: the database could not be asked, and --when-unknown decides"""
    why: str
    age_s: float | None
    """Age of the reading of the database that it rests on; null: there is none"""
    valid_s: float
    """From this age on it says nothing any more: take it for unknown"""
    server: str
    """Without the password"""
    version: str | None
    marks: GovernMarks
    worst: Worst | None
    """null, as everything below: there is no reading"""
    pause: Pause | None
    """null: loaders are not paused"""
    burn: Burn | None
    pins: tuple[Pin, ...]
    """The oldest first, from half of the low mark on"""
    databases: tuple[DatabaseAge, ...]
    """The oldest ten"""
    relations: tuple[RelationAge, ...]
    """The oldest ten of the database that was named and of the worst one"""
    members: MemberSpace | None
    """null: not known"""
    vacuum: Vacuuming | None
    """null: --vacuum was not given"""
    warnings: tuple[str, ...]
    not_known: tuple[str, ...]
    """Subjects that this role may not see, each with what would allow it"""
