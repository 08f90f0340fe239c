"""pg_checksums of the files of the server after its shutdown."""

from __future__ import annotations

import re

from pgdyno.drill._checking import CheckContext, CheckResult, CheckRule, Stage
from pgdyno.server.local.account import run_as, server_account

_SHOWN = 3
_PARTIAL = re.compile(r'could not read block (\d+) in file "(.+)": read \d+ of (\d+)')
_PARTIAL_MAX = 100


def _run(context: CheckContext) -> CheckResult:
    cluster = context.cluster
    control = cluster.control_data()
    if not control.shut_down:
        return None, "the server was not shut down cleanly"
    if control.checksums is False:
        return None, "data checksums are off"
    binary = cluster.installation.binary("pg_checksums")
    if not binary.is_file():
        return None, f"there is no pg_checksums in {cluster.installation.bindir}"
    for removed in range(_PARTIAL_MAX + 1):
        done = run_as(server_account(), [binary, "--check", "-D", cluster.data_dir])
        if removed == _PARTIAL_MAX or not _removed_partial_page(done.stderr):
            break
    messages = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    if done.returncode != 0:
        return False, "; ".join(messages[:_SHOWN])
    blocks = re.search(r"Blocks scanned: +(\d+)", done.stdout)
    return True, f"{int(blocks[1]):,} blocks are correct" if blocks else "all blocks are correct"


def _removed_partial_page(stderr: str) -> bool:
    """Remove the incomplete page at the end of a file that pg_checksums stopped at.

    A full disk leaves one when a relation is extended. PostgreSQL ignores it and overwrites it
    later (``mdnblocks`` in src/backend/storage/smgr/md.c); pg_checksums reports an error.
    """
    found = _PARTIAL.search(stderr)
    if found is None:
        return False
    block, path, page_bytes = int(found[1]), found[2], int(found[3])
    whole_bytes = block * page_bytes
    size = run_as(server_account(), ["stat", "-c", "%s", path]).stdout.strip()
    if not size.isdigit() or not whole_bytes < int(size) < whole_bytes + page_bytes:
        return False
    return run_as(server_account(), ["truncate", "-s", str(whole_bytes), path]).returncode == 0


CHECK = CheckRule("checksums", Stage.STOPPED, _run, deep=True)
