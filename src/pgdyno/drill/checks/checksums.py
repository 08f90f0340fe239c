"""pg_checksums over the files of the server once it was shut down."""

from __future__ import annotations

import re

from pgdyno.drill._checking import CheckRule, Scene, Seen, Stage
from pgdyno.server.local.account import run_as, server_account

_SHOWN = 3


def _look(scene: Scene) -> Seen:
    cluster = scene.cluster
    control = cluster.control_data()
    if not control.shut_down:
        return None, "the server was not shut down cleanly"
    if control.checksums is False:
        return None, "data checksums are off"
    program = cluster.installation.binary("pg_checksums")
    if not program.is_file():
        return None, f"there is no pg_checksums in {cluster.installation.bindir}"
    done = run_as(server_account(), [program, "--check", "-D", cluster.data_dir])
    said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    if done.returncode != 0:
        return False, "; ".join(said[:_SHOWN])
    blocks = re.search(r"Blocks scanned: +(\d+)", done.stdout)
    return True, f"{int(blocks[1]):,} blocks right" if blocks else "all blocks right"


CHECK = CheckRule("checksums", Stage.STOPPED, _look, deep=True)
