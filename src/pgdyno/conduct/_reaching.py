"""Reaching the server of a spec: one of the user's is connected to, one of pgdyno's is started."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from pgdyno.conduct._connection_room import check_connections, pairs_warning, pooler_pairs
from pgdyno.conduct._entrance import in_front
from pgdyno.conduct._target import Target, check_open_files
from pgdyno.conduct.watch import Watcher
from pgdyno.errors import SetupError
from pgdyno.pooler import check_pooler
from pgdyno.record.facts import ServerFacts
from pgdyno.server import (
    OWN_DATABASE,
    SessionSettings,
    Settings,
    catalog_first,
    keeps_prepared,
    own_database,
    require_loaded,
    resolve_conninfo,
    restore_leftovers,
    server_behind,
    server_facts,
    without_time_limits,
)
from pgdyno.server.connecting.exclusive_use import exclusive_use
from pgdyno.spec import Spec
from pgdyno.workload import Workload, own_database_needed

_FILES_HIDDEN = (
    "this role cannot see whether the server's configuration files have changes that are not yet"
    " loaded; a reload by pgdyno would load them (to check it: GRANT SELECT ON pg_file_settings and"
    " EXECUTE ON FUNCTION pg_show_all_file_settings())"
)


def open_target(
    spec: Spec,
    workloads: Collection[Workload],
    stack: ExitStack,
    watcher: Watcher,
    *,
    may_apply: bool,
    keep_server: Path | None = None,
) -> Target:
    """Start or connect to the spec's server, with the database that the ``workloads`` use;
    ``stack`` restores everything when it unwinds. ``keep_server`` is the directory of a server that
    is started and whose data stay there, of a new one from ``Cluster.keep_from_now_on`` on."""
    _check_open_files(spec)
    if spec.server.kind == "none":
        return _no_server()
    check_pooler(spec)
    if spec.server.kind == "existing":
        return _open_existing(spec, workloads, stack, watcher, may_apply=may_apply)
    from pgdyno.conduct._embedded import start_embedded

    return start_embedded(spec, stack, watcher, keep_server)


def _check_open_files(spec: Spec) -> None:
    """Raise SetupError for more connections than this process may have open files."""
    check_open_files(sum(group.connections_max for group in spec.clients))


def _no_server() -> Target:
    """Return the target of a load of a web server whose database is not known."""
    facts: ServerFacts = {
        "kind": "none",
        "data_directory": None,
        "is_local": False,
        "postmaster_pid": None,
        "settings": {},
    }
    return Target(
        server=None,
        gateway=None,
        users_pooler=None,
        server_settings=None,
        facts=facts,
        cluster=None,
    )


def _restore(settings: Settings, watcher: Watcher) -> None:
    for sentence in settings.restore_all().sentences():
        watcher.note(sentence)


def _open_existing(
    spec: Spec,
    workloads: Collection[Workload],
    stack: ExitStack,
    watcher: Watcher,
    *,
    may_apply: bool,
) -> Target:
    watcher.phase("connecting")
    entrance = resolve_conninfo(spec.server.conninfo)
    conninfo = server_behind(entrance, spec.server.control)
    unlimited, wait_ms = without_time_limits(conninfo), spec.server.wait_ms
    stack.enter_context(exclusive_use(unlimited, wait_ms=wait_ms, note=watcher.note))
    setup_undo = stack.enter_context(ExitStack())
    pooled = conninfo is not entrance
    if pooled and spec.pooler.in_use:
        raise SetupError(
            f"{entrance.uri_without_password} is a pooler already",
            code="pooler-before-pooler",
            hint="name the server itself, and pgdyno starts a pooler in front of it",
        )
    for sentence in restore_leftovers(conninfo):
        watcher.note(sentence)
    conninfo = replace(conninfo, database_named=entrance.database_named)
    named = entrance.database if entrance.database_named else None
    if own_database_needed(conninfo, workloads, spec.workload):
        conninfo = replace(own_database(conninfo, setup_undo), database_named=False)
        entrance = replace(entrance, database=conninfo.database, server_encoding=None)
        if named is not None:
            watcher.note(_why_other_database(named, spec))
    if may_apply and not require_loaded(conninfo):
        watcher.note(_FILES_HIDDEN)
    settings = Settings.of_user(conninfo, may_apply=may_apply)
    stack.callback(_restore, settings, watcher)
    facts: ServerFacts = {
        **server_facts(conninfo),
        "kind": "existing",
        "entrance_uri": entrance.uri_without_password if pooled else None,
        "database_named": named,
    }
    if pooled:
        watcher.note(
            f"set-up and probes connect directly to {conninfo.uri_without_password}, not through"
            " the pooler"
        )
        facts["pooler_pairs"] = pooler_pairs(facts, entrance)
        if warning := pairs_warning(facts["pooler_pairs"]):
            watcher.note(f"warning: {warning}")
        if spec.load.protocol == "prepared" and not keeps_prepared(entrance):
            watcher.note(f"warning: {_UNPREPARED}")
    else:
        if warning := check_connections(spec, facts, conninfo):
            watcher.note(f"warning: {warning}")
    if not (pooled or spec.pooler.in_use or any(each.own for each in workloads)):
        entrance = catalog_first(entrance)
    gateway = None if pooled else in_front(spec, entrance, stack, watcher)
    facts["pooler"] = None if gateway is None else gateway.facts()
    return Target(
        # Settings under trial, such as timeouts, do not affect probes and set-up.
        server=without_time_limits(conninfo),
        gateway=gateway,
        users_pooler=entrance if pooled else None,
        server_settings=settings,
        facts=facts,
        cluster=None,
        sessions=None
        if pooled or spec.pooler.in_use or spec.http is not None
        else SessionSettings(without_time_limits(conninfo)),
        setup_undo=setup_undo,
    )


_UNPREPARED = (
    "the pooler lends its sessions for transactions and does not keep the clients' prepared"
    " statements apart: those of the load will fail with 26000 and 42P05. Use -M extended or -M"
    " simple;"
    " PgBouncer 1.21 and later can, with max_prepared_statements"
)


def _why_other_database(named: str, spec: Spec) -> str:
    """Return why the load does not use the database given by the user."""
    if spec.workload.setup is not None:
        return (
            f"the setup makes tables, so the load uses the database {OWN_DATABASE} and not {named};"
            f" with workload.initialize = true the setup is executed in {named}"
        )
    return (
        f"{named} has no tables for this workload, so the load uses tables made by pgdyno in the"
        f" database {OWN_DATABASE}; -i makes them in {named}"
    )
