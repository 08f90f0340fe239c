"""Names of snapshots, as a spec and the command line give them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

NAME_MAX = 80
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""They are names of directories."""
SnapshotName = Annotated[str, Field(min_length=1, max_length=NAME_MAX, pattern=f"^{NAME}$")]
