"""Another version or build of PostgreSQL."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="other-version",
        summary="run another version of PostgreSQL",
        kind="layout",
        durability_class="D0",
        price="an upgrade: the release notes' incompatibilities, and time without the server",
        keys=("server.version", "server.bindir", "server.settings.*"),
        manual_lines=("-- upgrade by pg_upgrade, or by a dump and its restoration",),
    ),
)
