"""Archives of pg_dump (custom, directory and tar format) as SQL: pg_restore writes it.

pg_restore connects to no server here, and nothing of the archive is executed by it.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pgdyno.errors import SetupError, UsageError
from pgdyno.escaping import shell_line, visible_line
from pgdyno.files import open_named
from pgdyno.server import Installation, discover_installations
from pgdyno.server.local.account import plain_environment

_CUSTOM = b"PGDMP"
_TOC = "toc.dat"
_TAR_MAGIC = slice(257, 262)
_LEAVING_OUT = ("--no-owner", "--no-privileges", "--file=-")
_HEAD_BYTES = 512
_PART_BYTES = 1 << 20
_END_S_MAX = 2.0


def is_archive(path: Path) -> bool:
    """Return whether it is an archive of pg_dump. Raises OSError."""
    if path.is_dir():
        return (path / _TOC).is_file()
    with open_named(path) as file:
        head = file.read(_HEAD_BYTES)
    in_tar = head.startswith(_TOC.encode() + b"\0") and head[_TAR_MAGIC] == b"ustar"
    return head.startswith(_CUSTOM) or in_tar


def archive_digest(path: Path) -> str:
    """Return the SHA-256 of an archive; of a directory that of its files' names and digests.
    Raises OSError."""
    if not path.is_dir():
        return _digest(path)
    whole = hashlib.sha256()
    for each in sorted(path.iterdir()):
        whole.update(f"{each.name}\0{_digest(each)}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _digest(path: Path) -> str:
    read = hashlib.sha256()
    with open_named(path) as file:
        while part := file.read(_PART_BYTES):
            read.update(part)
    return read.hexdigest()


@contextmanager
def restored(file: str, major: int) -> Iterator[IO[bytes]]:
    """Yield the SQL of an archive, for a server of the major version. Raises SetupError without a
    pg_restore, and at the end of the block if it failed."""
    path = Path(file).expanduser().absolute()
    program = _pg_restore(major, path)
    command = [str(program.binary("pg_restore")), *_LEAVING_OUT, str(path)]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            cwd="/",
            env=plain_environment(),
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            yield process.stdout
            process.wait()
        except UsageError:  # Of SQL that is not complete: pg_restore says why.
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S_MAX)
            if not process.returncode:
                raise
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
        if process.returncode != 0:
            said.seek(0)
            first = (said.read(4096).decode("utf-8", "replace").strip().splitlines() or [""])[0]
            raise SetupError(
                f"the setup {file} cannot be read by pg_restore {program.version}:"
                f" {visible_line(first.removeprefix('pg_restore: ').removeprefix('error: '))}",
                code="setup-archive",
                hint="an archive of a newer pg_dump needs a pg_restore at least as new: pgdyno"
                " server get gets one, or write the SQL where there is one:"
                f" {_by_hand(path)}",
            )


def _pg_restore(major: int, path: Path) -> Installation:
    """Return the binaries that read an archive for a server: of its version, else of the next newer
    one, else the newest."""
    found = [each for each in discover_installations() if each.binary("pg_restore").is_file()]
    newer = [each for each in found if each.major >= major]
    if newer:
        return min(newer, key=lambda each: each.major)
    if found:
        return max(found, key=lambda each: each.version_num)
    raise SetupError(
        f"the setup {path} is an archive of pg_dump, and there is no pg_restore on this machine to"
        " read it",
        code="setup-archive",
        hint=f"write it as SQL where there is one: {_by_hand(path)}",
    )


def _by_hand(path: Path) -> str:
    """Return the command that writes an archive as SQL."""
    return shell_line(["pg_restore", *_LEAVING_OUT[:2], f"--file={path.name}.sql", str(path)])
