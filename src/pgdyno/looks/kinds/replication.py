"""Replication: slots, standbys, publications, and a standby's own recovery."""

from __future__ import annotations

from pgdyno.looks.look import Look

LOOKS = (
    Look("slot", "replication slots"),
    Look("standby", "standbys", role="pg_read_all_stats"),
    Look("recovery", "recovery of a standby"),
    Look("publication", "publications"),
)
