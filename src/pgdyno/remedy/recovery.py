"""Remedies that affect recovery: the content of the WAL, archiving, and the handling of damage.

Sources, PostgreSQL's documentation: wal_level and archive_mode in "Server Configuration";
zero_damaged_pages, ignore_checksum_failure, ignore_invalid_pages and allow_system_table_mods in
"Developer Options"; data_sync_retry in "Error Handling".
"""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.remedy._remedy import Case, Need, Remedy
from pgdyno.remedy.circumstances import Circumstances

_RESCUE_ONLY = "only for retrieving data from a damaged database"


def _switched_on(name: str) -> Callable[[Case], bool]:
    return lambda case: case.becomes(lambda server: server.is_on(name, default=False))


def _minimal(server: Circumstances) -> bool:
    return server.text("wal_level", "replica").lower() == "minimal"


def _not_archiving(server: Circumstances) -> bool:
    return not server.is_on("archive_mode", default=False)


def _nothing_archives(server: Circumstances) -> bool:
    named = (server.text(name, "") for name in ("archive_command", "archive_library"))
    return not _not_archiving(server) and not any(name.strip("' ") for name in named)


def _ignores_damage(setting: str, summary: str, bound: str, price: str, kind: Need) -> Remedy:
    return Remedy(
        id=setting.replace("_", "-"),
        summary=summary,
        kind=kind,
        durability_class="D2",
        bound=bound,
        price=price,
        settings=(setting,),
        when=_switched_on(setting),
    )


REMEDIES = (
    Remedy(
        id="wal-level-minimal",
        summary="write only the WAL needed for crash recovery",
        kind="restart",
        durability_class="D0",
        bound=(
            "nothing is lost in a crash; base backups taken before cannot be used for archive"
            " recovery or a standby, which may lead to data loss"
        ),
        price="no WAL archiving, no standbys, no backups while the server runs",
        settings=("wal_level",),
        when=lambda case: case.becomes(_minimal),
    ),
    Remedy(
        id="archive-mode-off",
        summary="do not archive WAL",
        kind="restart",
        durability_class="D0",
        bound=(
            "nothing is lost in a crash; if the storage is lost, all changes since the last base"
            " backup are lost"
        ),
        price="no point-in-time recovery",
        settings=("archive_mode",),
        when=lambda case: case.becomes(_not_archiving),
    ),
    Remedy(
        id="archive-command-off",
        summary="keep WAL unarchived until an archive command or library is set",
        kind="reload",
        durability_class="D0",
        bound=("nothing is lost in a crash; if the storage is lost, changes not archived are lost"),
        price="WAL segments accumulate until archiving resumes or the disk is full",
        settings=("archive_command", "archive_library"),
        when=lambda case: case.becomes(_nothing_archives),
    ),
    _ignores_damage(
        "zero_damaged_pages",
        "read a damaged page as an empty page",
        "all rows on a damaged page are destroyed",
        _RESCUE_ONLY,
        "reload",
    ),
    _ignores_damage(
        "ignore_checksum_failure",
        "continue after a checksum failure",
        "crashes, and corruption that is propagated or hidden",
        _RESCUE_ONLY,
        "reload",
    ),
    _ignores_damage(
        "ignore_invalid_pages",
        "continue recovery if WAL refers to invalid pages",
        "crashes, data loss, and corruption that is propagated or hidden",
        _RESCUE_ONLY,
        "restart",
    ),
    _ignores_damage(
        "data_sync_retry",
        "retry a failed flush instead of stopping with a PANIC",
        "if the operating system discards data after a failed write, data is lost or corrupted",
        "only if the operating system is known to keep such data",
        "restart",
    ),
    _ignores_damage(
        "allow_system_table_mods",
        "allow changes to the structure of system tables",
        "irretrievable data loss or a corrupt database if it is used carelessly",
        "not needed in normal operation",
        "reload",
    ),
)
