"""Work that a change may postpone beyond the end of a slice."""

from __future__ import annotations

from typing import Literal

Debt = Literal["WAL flush", "vacuum", "checkpoint"]
"""Flushing the WAL, removing dead rows, writing dirty buffers; in the order in which it is done, as
a checkpoint also writes what a vacuum changed."""
