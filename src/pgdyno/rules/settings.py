"""Settings that are wrong, without effect, or meant for developers."""

from __future__ import annotations

from collections.abc import Iterator

from pgdyno.facts.sight import Sight, Unseen, alter_system, measured
from pgdyno.json_types import Row
from pgdyno.numbers import counted, duration, listed
from pgdyno.rules.rule import Cleared, Found, rule

_LOOKS = ("file_error", "hba_error")


@rule(
    "configuration-errors",
    looks=_LOOKS,
    false_positives="a file that somebody is editing at this moment",
)
def configuration_errors(sight: Sight) -> Found | Cleared:
    """Errors in postgresql.conf or pg_hba.conf: reloads fail, and the server will not start again.

    Trigger: pg_file_settings or pg_hba_file_rules shows an error. Threshold: none. A running server
    keeps its old settings; one that starts refuses the file. A file whose errors this role may not
    see is listed as not looked at.
    """
    seen = {name: rows for name in _LOOKS if (rows := _rows(sight, name)) is not None}
    if not seen:
        sight.rows(_LOOKS[0])  # raises the reason
    lines = [_line(row) for rows in seen.values() for row in rows]
    if not lines:
        return Cleared("the configuration files that can be seen have no errors")
    evidence = [measured(where, error, "") for where, error in lines]
    where, error = lines[0]
    more = f", and {len(lines) - 1} more errors" if len(lines) > 1 else ""
    return Found(
        sentence=f"{where}: {error}{more}; the server will not start with this file",
        severity="will fail",
        confidence=0.9,
        evidence=evidence,
        advice="mend the line, then SELECT pg_reload_conf() and look again",
    )


def _rows(sight: Sight, name: str) -> list[Row] | None:
    try:
        return list(sight.rows(name))
    except Unseen:
        return None


def _line(row: Row) -> tuple[str, str]:
    if "line_number" in row:
        return f"pg_hba.conf line {row['line_number']}", row["error"]
    name = f" ({row['name']})" if row["name"] else ""
    return f"{row['file'] or 'postgresql.conf'} line {row['sourceline']}{name}", row["error"]


Contradiction = tuple[str, tuple[str, ...]]


@rule(
    "settings-without-effect",
    looks=("server", "setting", "publication"),
    false_positives="a setting that is prepared for another one that comes with the next restart",
)
def settings_without_effect(sight: Sight) -> Found | Cleared:
    """Settings that contradict each other, so that one of them has no effect or a bad one.

    Trigger, each certain from the settings themselves:

    * commit_delay above 0 with commit_siblings = 0: each commit waits, also where nobody joins it;
    * commit_delay above 0 with synchronous_commit or fsync off: no commit waits for a flush;
    * publications, and wal_level is not logical: they publish nothing;
    * max_parallel_workers or max_parallel_workers_per_gather above max_worker_processes: there are
      no more workers than that.

    Threshold: none.
    """
    wrong = [*_of_commits(sight), *_of_publications(sight), *_of_workers(sight)]
    if not wrong:
        return Cleared("no settings contradict each other")
    names = dict.fromkeys(name for _, involved in wrong for name in involved)
    return Found(
        sentence="; ".join(sentence for sentence, _ in wrong),
        severity="minor",
        confidence=0.9,
        evidence=[
            measured(name, sight.setting(name).value, sight.setting(name).unit) for name in names
        ],
        advice="change or reset one of the two",
        commands=[
            f"ALTER SYSTEM RESET {name}" for name in names if not sight.setting(name).is_default
        ],
    )


def _of_commits(sight: Sight) -> Iterator[Contradiction]:
    delay = sight.setting("commit_delay")
    if delay.number <= 0:
        return
    if sight.setting("commit_siblings").number == 0:
        yield (
            "commit_delay makes each commit wait, since commit_siblings = 0",
            ("commit_delay", "commit_siblings"),
        )
    for name in ("synchronous_commit", "fsync"):
        if not sight.setting(name).is_on:
            yield f"commit_delay has no effect with {name} = off", ("commit_delay", name)


def _of_publications(sight: Sight) -> Iterator[Contradiction]:
    publications = sight.rows("publication")
    level = sight.setting("wal_level")
    if publications and level.value != "logical" and not sight.is_standby:
        number = counted(len(publications), "publication publishes", "publications publish")
        yield f"{number} nothing with wal_level = {level.value}", ("wal_level",)


def _of_workers(sight: Sight) -> Iterator[Contradiction]:
    most = sight.setting("max_worker_processes")
    for name in ("max_parallel_workers", "max_parallel_workers_per_gather"):
        setting = sight.setting(name)
        if setting.number > most.number and not (setting.is_default and most.is_default):
            yield (
                f"{name} = {setting.value} is more than max_worker_processes = {most.value}",
                (name, "max_worker_processes"),
            )


@rule(
    "restart-pending",
    looks=("setting",),
    false_positives="a restart that is planned",
)
def restart_pending(sight: Sight) -> Found | Cleared:
    """Settings in the configuration files that wait for a restart.

    Trigger: pg_settings.pending_restart. Threshold: none. It is minor, and easily forgotten: the
    next restart, which may be a crash at night, starts another server than the one that was tested.

    A setting from the server's command line stays as it is, whatever the files say: pg_settings
    calls it pending nevertheless, once they were read again.
    """
    pending = [
        setting
        for setting in sight.settings
        if setting.pending and setting.source != "command line"
    ]
    evidence = [measured(f"{each.name} until then", each.value, each.unit) for each in pending]
    if not pending:
        return Cleared("no setting waits for a restart")
    return Found(
        sentence=f"{listed([each.name for each in pending])} will change at the next restart",
        severity="minor",
        confidence=0.95,
        evidence=evidence,
        advice="restart the server when it suits, or take the change out of the configuration",
    )


_HIDES_DAMAGE = {
    "zero_damaged_pages": "damaged pages are emptied without an error",
    "ignore_checksum_failure": "damaged pages are read as if they were sound",
    "ignore_invalid_pages": "recovery goes on over missing pages",
}
_OTHERS = {
    "ignore_system_indexes": "each look-up in a catalog reads all of it",
    "allow_system_table_mods": "catalogs can be changed by hand",
    "debug_discard_caches": "each session throws its caches away over and over",
}


@rule(
    "developer-settings",
    looks=("setting",),
    false_positives="data that is being rescued from a damaged server at this moment",
)
def developer_settings(sight: Sight) -> Found | Cleared:
    """Settings for developers and for rescuing damaged data, left on.

    Trigger: one of them is on, or debug_discard_caches is above 0. Threshold: none; PostgreSQL's
    documentation ("Developer Options") says that they should not be used on a production database.
    """
    known = [n for n in (*_HIDES_DAMAGE, *_OTHERS) if sight.knows(n)]
    on = [name for name in known if sight.setting(name).value not in ("off", "0")]
    evidence = [measured(name, sight.setting(name).value, "", "not off") for name in on]
    if not on:
        return Cleared("no setting for developers is on")
    whys = {**_HIDES_DAMAGE, **_OTHERS}
    return Found(
        sentence=f"{listed(on)} {'is' if len(on) == 1 else 'are'} on: {whys[on[0]]}",
        severity="costs",
        confidence=0.9,
        evidence=evidence,
        commands=alter_system({n: "0" if n == "debug_discard_caches" else "off" for n in on}),
    )


_NAMES = ("statement_timeout", "lock_timeout", "transaction_timeout")
_FOR_ALL = ("configuration file", "command line", "environment variable", "global")


@rule(
    "timeouts-for-all",
    looks=("setting",),
    false_positives="roles for maintenance that have a setting of their own",
)
def timeouts_for_all(sight: Sight) -> Found | Cleared:
    """Time limits in the configuration file, which end dumps, vacuums and new indexes too.

    Trigger: statement_timeout, lock_timeout or transaction_timeout is set for the whole server.
    Threshold: none; PostgreSQL's documentation ("Client Connection Defaults") advises against each
    of them in postgresql.conf, since it affects all sessions. It is minor.
    """
    known = [sight.setting(name) for name in _NAMES if sight.knows(name)]
    limits = [each for each in known if each.number > 0 and each.source in _FOR_ALL]
    if not limits:
        return Cleared("no time limit is set for the whole server")
    is_set = "is set" if len(limits) == 1 else "are set"
    return Found(
        sentence=(
            f"{listed([f'{each.name} of {duration(each.seconds)}' for each in limits])} {is_set}"
            " for the whole server, and so for dumps, manual vacuums and CREATE INDEX"
        ),
        severity="minor",
        confidence=0.7,
        evidence=[measured(each.name, each.seconds, "s", "more than 0") for each in limits],
        advice="set it for the roles of the application: ALTER ROLE … SET …",
        commands=[f"ALTER SYSTEM RESET {each.name}" for each in limits],
    )
