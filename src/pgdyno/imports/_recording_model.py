"""The parts of a HAR file that are read, as browsers and proxies write them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from pgdyno.errors import UsageError

_SHOWN_MAX = 5
_DURATION_MS_MAX = 1e12
_SAFARI_ASKED = "Network Load"
"""Safari's name of a request that reached a server."""
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
        """Refuse half of a character, which JSON can write and HTTP cannot send."""
        if isinstance(value, str) and _SURROGATES.search(value):
            raise ValueError("not a valid text")
        return value


def _moment(value: Any) -> datetime | None:
    """Return a time, that of Greenwich if it names no zone; None for any other text."""
    try:
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        moment.timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return moment


def _duration_ms(value: Any) -> float:
    """Return a duration; 0 for null or -1, which browsers write for none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < _DURATION_MS_MAX else 0.0


_Moment = Annotated[datetime | None, BeforeValidator(_moment)]
_Duration = Annotated[float, BeforeValidator(_duration_ms)]


class NameValue(_Read):
    """A header, or a field of a form."""

    name: str
    value: str = ""
    file_name: str | None = Field(None, alias="fileName")


class Posted(_Read):
    """The body of a request."""

    mime_type: str | None = Field(None, alias="mimeType")
    text: str | None = None
    params: list[NameValue] | None = None
    encoding: str | None = None
    """``base64`` for bytes that are no text."""


class HarRequest(_Read):
    """A request."""

    method: str
    url: str
    headers: list[NameValue] = Field(default_factory=list)
    posted: Posted | None = Field(None, alias="postData")


class Response(_Read):
    """The response to it; 0 if there was none."""

    status: int = 0


class HarEntry(_Read):
    """A request and its response."""

    started: _Moment = Field(None, alias="startedDateTime")
    """None if no time is named."""
    time_ms: _Duration = Field(0, alias="time")
    page: str | None = Field(None, alias="pageref")
    request: HarRequest
    response: Response = Field(default_factory=lambda: Response())
    from_cache: Any = Field(None, alias="_fromCache")
    """Chromium's mark of a response that the browser had: ``memory`` or ``disk``."""
    fetched: Any = Field(None, alias="_fetchType")
    """Safari's source of the response."""
    cache: Any = None
    """Firefox has ``afterRequest`` in it, if only as null, for a response that it had."""

    @property
    def starts_s(self) -> float:
        """The moment at which the request began."""
        assert self.started is not None
        return self.started.timestamp()

    @property
    def ends_s(self) -> float:
        """The moment at which its response was there."""
        return self.starts_s + self.time_ms / 1000

    def is_cached(self, browser: str) -> bool:
        """Return whether the browser had the response, and asked no server."""
        if self.from_cache or (self.fetched not in (None, "", _SAFARI_ASKED)):
            return True
        return (
            "firefox" in browser.lower()
            and isinstance(self.cache, dict)
            and "afterRequest" in self.cache
        )


class _Creator(_Read):
    name: str = ""


class _Log(_Read):
    creator: _Creator | None = None
    entries: list[HarEntry]


class _Recording(_Read):
    log: _Log


class Recording(Struct, frozen=True):
    """Requests in the order of their beginning, and what is said of all."""

    entries: list[tuple[int, HarEntry]]
    """Each after its number in the file."""
    without_time: int
    """Entries that name no time: their place is not known."""
    browser: str


def read_recording(content: bytes, file: str) -> Recording:
    """Return the contents of a HAR file.

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
        log = _Recording.model_validate(document).log
    except ValidationError as problem:
        raise _refused(problem, file) from None
    timed = [each for each in enumerate(log.entries) if each[1].started is not None]
    return Recording(
        sorted(timed, key=lambda each: each[1].starts_s),
        len(log.entries) - len(timed),
        log.creator.name if log.creator else "",
    )


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
