"""Removes the directory of a server, pooler or front end whose pgdyno was killed.

Run as a script, never imported: ``python -I _removal.py DIRECTORY``, by the guardian once it has
ended what ran there.
"""

import os
import sys
from pathlib import Path

# The package is not on the path of a script that runs in isolation, or another one is.
PACKAGES = os.path.realpath(__file__).removesuffix("/pgdyno/server/local/_removal.py")
if PACKAGES not in sys.path:
    sys.path.insert(0, PACKAGES)

from pgdyno.server.local.sweep import sweep_one  # noqa: E402
from pgdyno.watchdogs import ignore_stop_signals  # noqa: E402

if __name__ == "__main__":
    ignore_stop_signals()
    sweep_one(Path(sys.argv[1]))
