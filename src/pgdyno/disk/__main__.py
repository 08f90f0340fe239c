"""``python -m pgdyno.disk FOLDER``: unmount all disks below a folder. A disk's daemon runs it."""

from __future__ import annotations

import sys
from pathlib import Path

from pgdyno.disk.mounting import unmount_all

_PATIENCE_S = 30.0

for sentence in unmount_all(Path(sys.argv[1]), patience_s=_PATIENCE_S):
    print(sentence, file=sys.stderr)
