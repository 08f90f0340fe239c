"""What recovery has to go by: the WAL's content, the archive, and what is done about damage.

Sources, PostgreSQL's documentation: wal_level and archive_mode in "Server Configuration";
zero_damaged_pages, ignore_checksum_failure, ignore_invalid_pages and allow_system_table_mods in
"Developer Options"; data_sync_retry in "Error Handling".
"""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.remedy._remedy import Case, Need, Remedy
from pgdyno.remedy.circumstances import Circumstances

_RESCUE_ONLY = "only for getting data out of a database that is damaged already"


def _switched_on(name: str) -> Callable[[Case], bool]:
    return lambda case: case.newly(lambda server: server.is_on(name, default=False))


def _minimal(server: Circumstances) -> bool:
    return server.text("wal_level", "replica").lower() == "minimal"


def _not_archiving(server: Circumstances) -> bool:
    return not server.is_on("archive_mode", default=False)


def _nothing_archives(server: Circumstances) -> bool:
    named = (server.text(name, "") for name in ("archive_command", "archive_library"))
    return not _not_archiving(server) and not any(name.strip("' ") for name in named)


def _reads_over_damage(setting: str, summary: str, bound: str, price: str, kind: Need) -> Remedy:
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
        summary="write only the WAL that crash recovery needs",
        kind="restart",
        durability_class="D0",
        bound=(
            "nothing is lost in a crash; base backups taken before are of no use for archive"
            " recovery or a standby, which may lead to data loss"
        ),
        price="no WAL archiving, no standbys, no backups while the server runs",
        settings=("wal_level",),
        when=lambda case: case.newly(_minimal),
    ),
    Remedy(
        id="archive-mode-off",
        summary="archive no WAL",
        kind="restart",
        durability_class="D0",
        bound=(
            "nothing is lost in a crash; when the storage is lost, so is all since the last base"
            " backup"
        ),
        price="no recovery to a point in time",
        settings=("archive_mode",),
        when=lambda case: case.newly(_not_archiving),
    ),
    Remedy(
        id="archive-command-off",
        summary="keep the WAL that is to be archived until there is a command again",
        kind="reload",
        durability_class="D0",
        bound=(
            "nothing is lost in a crash; when the storage is lost, so is all that was not archived"
        ),
        price="WAL segments accumulate until there is a command again, or the disk is full",
        settings=("archive_command", "archive_library"),
        when=lambda case: case.newly(_nothing_archives),
    ),
    _reads_over_damage(
        "zero_damaged_pages",
        "read a damaged page as an empty one",
        "all rows on a damaged page are destroyed",
        _RESCUE_ONLY,
        "reload",
    ),
    _reads_over_damage(
        "ignore_checksum_failure",
        "go on with pages whose checksum is wrong",
        "crashes, and corruption that spreads or is hidden",
        _RESCUE_ONLY,
        "reload",
    ),
    _reads_over_damage(
        "ignore_invalid_pages",
        "go on with recovery where WAL refers to invalid pages",
        "crashes, data loss, and corruption that spreads or is hidden",
        _RESCUE_ONLY,
        "restart",
    ),
    _reads_over_damage(
        "data_sync_retry",
        "flush again where a flush failed, instead of a PANIC",
        "where the operating system drops what it failed to write, data is lost or corrupt",
        "only where the operating system is known to keep such data",
        "restart",
    ),
    _reads_over_damage(
        "allow_system_table_mods",
        "allow changes of the structure of system tables",
        "data loss that cannot be mended, or a corrupt database, when it is used ill-advisedly",
        "nothing in normal operation needs it",
        "reload",
    ),
)
