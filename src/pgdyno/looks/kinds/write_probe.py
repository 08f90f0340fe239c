"""The time of commits, which is measured by writing, and so only when asked for."""

from __future__ import annotations

from pgdyno.looks.look import Look

LOOKS = (Look("write_probe", "the time of a commit", option="--write-probe"),)
