"""Read text files of the user: scripts and SQL."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.files import read_at_most

_BYTES_MAX = 256 << 20
_URLS_BYTES_MAX = 1 << 20


def read_text(file: str, what: str, *, bytes_max: int = _BYTES_MAX) -> str:
    """Return the text of ``file``, called ``what`` in errors. Raises UsageError."""
    try:
        content = read_at_most(Path(file).expanduser(), bytes_max)
        if len(content) > bytes_max:
            raise UsageError(
                f"the {what} {file} is longer than {bytes_max >> 20} MB", code=f"{what}-file"
            )
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise unreadable(file, what, error) from None
    except UnicodeDecodeError:
        raise UsageError(
            f"the {what} {file} is not UTF-8 text",
            code=f"{what}-file",
            hint="convert it with iconv -t UTF-8; other bytes can be written as E'\\xe9'",
        ) from None
    return text


def unreadable(file: str, what: str, error: OSError) -> UsageError:
    """Return the error for a file that cannot be opened or read."""
    return UsageError(f"the {what} {file} cannot be read: {error.strerror}", code=f"{what}-file")


def read_urls(file: str) -> list[tuple[str, str]]:
    """Return the URLs in ``file``, one a line, each after its ``file:line``.

    Blank lines and those that begin with # do not count. Raises UsageError.
    """
    lines = read_text(file, "url-list", bytes_max=_URLS_BYTES_MAX).splitlines()
    urls = [
        (f"{file}:{number}", line.strip())
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not urls:
        raise UsageError(f"the list of URLs {file} is empty", code="url-list-file")
    return urls
