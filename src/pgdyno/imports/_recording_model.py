"""The parts of a HAR file that are read, as browsers and proxies write them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pgdyno.errors import UsageError

_SHOWN_MAX = 5
_WORDS = {
    "model_type": "expected an object",
    "list_type": "expected an array",
    "string_type": "expected a string",
    "missing": "is missing",
}
"""Words of ours, by pydantic's type of an error."""
_SURROGATES = re.compile("[\ud800-\udfff]")


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _is_text(cls, value: Any) -> Any:
        """Refuse half of a character, which JSON can write and nobody can send."""
        if isinstance(value, str) and _SURROGATES.search(value):
            raise ValueError("not a valid text")
        return value


class Pair(_Read):
    """A header, or a field of a form."""

    name: str
    value: str = ""
    file_name: str | None = Field(None, alias="fileName")


class Posted(_Read):
    """The body of a request."""

    mime_type: str = Field("", alias="mimeType")
    text: str | None = None
    params: list[Pair] | None = None
    encoding: str | None = None
    """``base64`` for bytes that are no text."""


class Request(_Read):
    """A request."""

    method: str
    url: str
    headers: list[Pair] = Field(default_factory=list)
    posted: Posted | None = Field(None, alias="postData")


class Response(_Read):
    """The response to it; 0 if there was none."""

    status: int = 0


class Entry(_Read):
    """A request and its response."""

    started: datetime = Field(alias="startedDateTime")
    time_ms: Annotated[float, Field(alias="time")] = 0
    page: str | None = Field(None, alias="pageref")
    request: Request
    response: Response = Field(default_factory=lambda: Response())
    from_cache: Any = Field(None, alias="_fromCache")
    """Chromium's mark of a response that the browser had: ``memory`` or ``disk``."""


class _Log(_Read):
    entries: list[Entry]


class _Recording(_Read):
    log: _Log


def read_entries(content: bytes, file: str) -> list[Entry]:
    """Return the requests in the order of their beginning.

    Raises UsageError with the line or the key of what is wrong.
    """
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as problem:
        raise UsageError(
            f"{file}:{problem.lineno}: not valid JSON: {problem.msg}", code="import-syntax"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: not UTF-8 text", code="import-encoding") from None
    except (RecursionError, ValueError):  # Nested too deeply, or a number of thousands of digits.
        raise UsageError(
            f"{file}: not a HAR file: nested too deeply, or with a number too long",
            code="import-refused",
        ) from None
    try:
        entries = _Recording.model_validate(document).log.entries
    except ValidationError as problem:
        raise _refused(problem, file) from None
    return sorted(entries, key=lambda entry: _moment(entry.started))


def _moment(time: datetime) -> float:
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def seconds_between(before: Entry, after: Entry) -> float:
    """Return the time from the end of a request to the beginning of another one."""
    return _moment(after.started) - _moment(before.started) - before.time_ms / 1000


def _refused(problem: ValidationError, file: str) -> UsageError:
    errors = problem.errors(include_url=False, include_input=False)
    shown = [
        f"{_key(each['loc'])}: {_WORDS.get(each['type']) or each['msg'].lower()}"
        for each in errors[:_SHOWN_MAX]
    ]
    if len(errors) > _SHOWN_MAX:
        shown.append(f"and {len(errors) - _SHOWN_MAX:,} more")
    return UsageError(f"{file}: not a HAR file: {'; '.join(shown)}", code="import-no-recording")


def _key(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in location)
    return text.removeprefix(".") or "the document"
