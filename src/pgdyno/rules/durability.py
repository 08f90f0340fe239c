"""Settings and file systems by which a crash loses data."""

from __future__ import annotations

from pgdyno.facts.sight import Sight, alter_system, measured
from pgdyno.numbers import counted, duration, listed, size
from pgdyno.rules.rule import Cleared, Found, rule
from pgdyno.spec.sql_text import quoted

_CLASSES = {
    "fsync": "a crash of the machine may make the whole cluster unusable (class D3)",
    "full_page_writes": "a crash of the machine may damage pages written in part (class D2)",
}


@rule(
    "durability-off",
    looks=("setting",),
    false_positives=(
        "a server whose data can be thrown away; for full_page_writes, storage that writes whole"
        " pages of 8 kB atomically"
    ),
)
def durability_off(sight: Sight) -> Found | Cleared:
    """Durability given up by a setting: a crash of the machine may damage or lose data.

    Trigger: fsync or full_page_writes is off. Threshold: none; what they may lose is in
    PostgreSQL's documentation ("Reliability and the Write-Ahead Log"): without fsync all data,
    without full_page_writes pages that the machine had written in part.
    """
    values = {name: sight.setting(name) for name in _CLASSES}
    evidence = [measured(name, each.value, "", "off") for name, each in values.items()]
    off = [name for name, each in values.items() if not each.is_on]
    if not off:
        return Cleared("fsync and full_page_writes are on", evidence)
    return Found(
        sentence=f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: {_CLASSES[off[0]]}",
        severity="costs",
        confidence=0.95,
        evidence=evidence,
        commands=alter_system(dict.fromkeys(off, "on")),
    )


_NAME = "synchronous_commit"
_OFF = ("off", "false", "no", "0")


@rule(
    "commits-not-durable",
    looks=("setting", "override"),
    false_positives="an application that can do without its last commits, and knows it",
)
def commits_not_durable(sight: Sight) -> Found | Cleared:
    """Commits acknowledged before they are on disk: for the server, a database or a role.

    Trigger: synchronous_commit is off in the configuration, or for a role or a database. Threshold:
    none; what a crash takes is the commits of the last three times wal_writer_delay (PostgreSQL's
    documentation, "Asynchronous Commit"). It is minor: it is safe for consistency, and mostly
    wanted; what is set for one role is easily forgotten.
    """
    own = sight.setting(_NAME)
    others = [row for row in sight.rows("override") if row["name"] == _NAME]
    off = [row for row in others if str(row["setting"]).lower() in _OFF]
    evidence = [measured(_NAME, own.value, "", "off")]
    evidence += [measured(f"{_NAME} of {_of(row)}", row["setting"], "", "off") for row in off]
    globally = not own.is_on and own.source not in ("database", "user", "database user")
    whose = ["the server"] if globally else []
    whose += [_of(row) for row in off]
    if not whose:
        return Cleared("commits are acknowledged when they are on disk", evidence)
    lost_s = 3 * sight.setting("wal_writer_delay").seconds
    return Found(
        sentence=(
            f"synchronous_commit is off for {listed(whose)}: a crash loses the commits of the last"
            f" {duration(lost_s)} (class D1)"
        ),
        severity="minor",
        confidence=0.95,
        evidence=evidence,
        commands=[*_reset_server(globally), *(_reset(row) for row in off)],
    )


def _of(row: dict[str, str]) -> str:
    role = f"role {row['role']}" if row["role"] else ""
    database = f"database {row['database']}" if row["database"] else ""
    return " in ".join(filter(None, (role, database))) or "all roles"


def _reset_server(globally: bool) -> list[str]:
    return ["ALTER SYSTEM RESET synchronous_commit", "SELECT pg_reload_conf()"] if globally else []


def _reset(row: dict[str, str]) -> str:
    if not row["role"]:
        return f"ALTER DATABASE {quoted(row['database'])} RESET {_NAME}"
    where = f" IN DATABASE {quoted(row['database'])}" if row["database"] else ""
    return f"ALTER ROLE {quoted(row['role'])}{where} RESET {_NAME}"


DATA_BYTES_MIN = 1 << 30


@rule(
    "checksums-off",
    looks=("setting", "relation_total"),
    false_positives="a file system with checksums of its own, such as ZFS or btrfs",
)
def checksums_off(sight: Sight) -> Found | Cleared:
    """No checksums of pages: damage by disk or memory is not noticed.

    Trigger: data_checksums is off, and the database has at least ``DATA_BYTES_MIN``. Threshold:
    ours; a database that is smaller is restored faster than it is checked. Version 18 has checksums
    by default. It is minor: turning them on needs the server to be down while all pages are
    written.
    """
    checksums = sight.setting("data_checksums")
    data = float(sight.row("relation_total")["bytes"])
    evidence = [
        measured("data_checksums", checksums.value, "", "off"),
        measured("size of the database", data, "bytes", f"at least {size(DATA_BYTES_MIN)}"),
    ]
    if checksums.is_on or data < DATA_BYTES_MIN:
        return Cleared("pages have checksums, or the database is small", evidence)
    return Found(
        sentence="pages have no checksums: damage by disk or memory is not noticed",
        severity="minor",
        confidence=0.95,
        evidence=evidence,
        advice=(
            "with the server stopped, pg_checksums --enable writes all pages; on a standby first,"
            " then switch over to it"
        ),
    )


@rule(
    "checksum-failures",
    looks=("database",),
    false_positives="a page that was restored since; the counter stays until it is reset",
)
def checksum_failures(sight: Sight) -> Found | Cleared:
    """Pages of which the checksum was wrong: data is damaged.

    Trigger: pg_stat_database counts a failure. Threshold: none; one wrong page is damage of disk,
    memory or file system, or a bug. Each read of the page fails.
    """
    rows = [row for row in sight.rows("database") if row["checksum_failures"]]
    if not rows:
        return Cleared("no page had a wrong checksum")
    failures = sum(row["checksum_failures"] for row in rows)
    return Found(
        sentence=(
            f"{counted(failures, 'page read had', 'pages read had')} a wrong checksum in"
            f" {listed([row['database'] for row in rows])}: data is damaged, and reading it fails"
        ),
        severity="will fail",
        confidence=0.9,
        evidence=[
            measured(f"checksum failures in {row['database']}", row["checksum_failures"], "count",
                     "at least 1")
            for row in rows
        ],
        advice=(
            "the server's log names the file and the block; check disk and memory, restore from a"
            " backup or a standby, and keep a copy of the damaged files"
        ),
    )  # fmt: skip
