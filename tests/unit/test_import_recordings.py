"""Recordings of browsers as scripts: what each browser writes, and that nothing is dropped in
silence, whatever the file is like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imported_files import TEXTS, lines_of, survives
from inline_snapshot import snapshot

from pgdyno.errors import UsageError
from pgdyno.imports import Choices, Imported, fields_with_texts, read_foreign
from pgdyno.spec import spec_from_fields
from pgdyno.workload import load_workloads


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Imported]:
    """Import a recording."""

    def read(content: str | bytes, name: str = "a.har", **chosen: Any) -> Imported:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        found = read_foreign(path, Choices(**chosen))
        load_workloads(spec_from_fields(fields_with_texts(found)))
        return found

    return read


def entry(url: str, **request_keys: Any) -> dict[str, Any]:
    return {
        "startedDateTime": "2026-11-20T10:00:00Z",
        "request": {"method": "GET", "url": url, **request_keys},
        "response": {"status": 200},
    }


def recording(*entries: dict[str, Any]) -> str:
    return json.dumps({"log": {"entries": entries}})


def test_credentials_and_pauses_are_as_asked(imported: Callable[..., Imported]) -> None:
    headers = [{"name": "Cookie", "value": "a=b"}, {"name": "TE", "value": "trailers"}]
    pages = [
        entry("http://a.example/1", headers=headers) | {"pageref": "p1"},
        entry("http://a.example/2")
        | {"pageref": "p2", "startedDateTime": "2026-11-20T10:00:02.5Z"},
    ]
    text = recording(*pages)
    assert lines_of(imported(text, "a.har")) == ["\\get /1", "\\sleep 2500 ms", "\\get /2"]
    kept = imported(text, "a.har", credentials=True, pauses=False)
    assert lines_of(kept) == ["\\get /1", "\\header Cookie: a=b", "\\get /2"]


@pytest.mark.parametrize(
    ("posted", "why"),
    [
        ({"mimeType": "multipart/form-data; boundary=x", "text": ""}, "several parts"),
        ({"mimeType": "image/png", "text": "iVBO", "encoding": "base64"}, "not UTF-8 text"),
        ({"mimeType": "text/plain", "text": "a\0b"}, "control characters"),
    ],
)
def test_bodies_that_scripts_cannot_say_are_named(
    posted: dict[str, str], why: str, imported: Callable[..., Imported]
) -> None:
    keys = {"method": "POST", "postData": posted}
    text = recording(entry("http://a.example/1", **keys), entry("http://a.example/2"))
    with pytest.raises(UsageError) as refused:
        imported(text, "a.har")
    assert f"log.entries[0], POST /1: a body {why}".split(": ")[0] in refused.value.message
    assert why in refused.value.message
    assert lines_of(imported(text, "a.har", partial=True)) == ["\\get /2"]


AT = "2026-11-20T10:00:{:06.3f}Z"


def notes_of(found: Imported) -> list[str]:
    """Return the notes without the name of the file."""
    return [each.partition("a.har: ")[2] for each in found.notes]


@pytest.mark.parametrize("started", ["", None, "yesterday", 5, "2026-13-01T00:00:00Z", ...])
def test_an_entry_without_a_time_is_left_out_alone(
    started: Any, imported: Callable[..., Imported]
) -> None:
    lost = entry("http://a.example/lost") | {"startedDateTime": started, "time": None}
    if started is ...:
        del lost["startedDateTime"]
    found = imported(recording(lost, entry("http://a.example/1")))
    assert lines_of(found) == ["\\get /1"]
    assert notes_of(found) == snapshot(
        [
            "left out (1): requests without a time, whose place nobody knows",
            "the recording has no pauses: each request follows the response before it",
        ]
    )


CACHED: dict[str, tuple[str, dict[str, Any]]] = {
    "chromium-memory": ("WebInspector", {"_fromCache": "memory"}),
    "chromium-disk": ("WebInspector", {"_fromCache": "disk"}),
    "safari-memory": ("WebKit Web Inspector", {"_fetchType": "Memory Cache"}),
    "safari-disk": ("WebKit Web Inspector", {"_fetchType": "Disk Cache"}),
    "safari-worker": ("WebKit Web Inspector", {"_fetchType": "Service Worker"}),
    "firefox": ("Firefox", {"cache": {"afterRequest": {"eTag": "x", "hitCount": 1}}}),
    "firefox-unknown": ("Firefox", {"cache": {"afterRequest": None}}),
}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "safari": ("WebKit Web Inspector", {"_fetchType": "Network Load", "cache": {}}),
    "firefox": ("Firefox", {"cache": {}}),
    "another": ("Proxy", {"cache": {"beforeRequest": None, "afterRequest": None}}),
}


def by_browser(case: tuple[str, dict[str, Any]]) -> str:
    browser, keys = case
    entries = [entry("http://a.example/1") | keys, entry("http://a.example/2")]
    return json.dumps({"log": {"creator": {"name": browser}, "entries": entries}})


@pytest.mark.parametrize("case", CACHED)
def test_what_the_browser_had_is_left_out(case: str, imported: Callable[..., Imported]) -> None:
    found = imported(by_browser(CACHED[case]))
    assert lines_of(found) == ["\\get /2"]
    assert notes_of(found) == snapshot(
        [
            "left out (1): requests that the browser answered itself, from its cache",
            "the recording has no pauses: each request follows the response before it",
        ]
    )


@pytest.mark.parametrize("case", ASKED)
def test_what_the_browser_asked_for_is_kept(case: str, imported: Callable[..., Imported]) -> None:
    found = imported(by_browser(ASKED[case]))
    assert lines_of(found) == ["\\get /1", "\\get /2"]


def test_without_pages_a_visitor_pauses_when_nothing_is_requested(
    imported: Callable[..., Imported],
) -> None:
    def at(second: float, path: str, time_ms: Any = 0) -> dict[str, Any]:
        times = {"startedDateTime": AT.format(second), "time": time_ms, "pageref": "page_0"}
        return entry(f"http://a.example/{path}") | times

    entries = [at(0, "1", 2500), at(0.1, "2", 100), at(3, "3", -1), at(5, "4", None)]
    found = imported(recording(*reversed(entries)))
    assert lines_of(found) == ["\\get /1", "\\get /2", "\\get /3", "\\sleep 2000 ms", "\\get /4"]
    assert notes_of(found) == []
    without = imported(recording(*entries[:3]))
    assert notes_of(without) == snapshot(
        ["the recording has no pauses: each request follows the response before it"]
    )
    assert notes_of(imported(recording(*entries), pauses=False)) == []


def test_what_a_recording_lacks_of_a_body_is_said(imported: Callable[..., Imported]) -> None:
    def posting(length: str, mime_type: str | None) -> str:
        headers = [{"name": "content-length", "value": length}]
        body = {"mimeType": mime_type, "text": "--x"}
        return recording(entry("http://a.example/1", method="POST", headers=headers, postData=body))

    assert lines_of(imported(posting("3", None)))[1:] == ["\\body --x"]
    typed = "\\header Content-Type: text/plain"
    for length, said in (("3", False), ("9", True)):
        found = imported(posting(length, "text/plain"))
        assert lines_of(found) == ["\\post /1", typed, "\\body --x"]
        assert any("a body of 9 bytes" in note for note in notes_of(found)) == said
    with pytest.raises(UsageError, match="a body of 9 bytes"):
        imported(posting("9", "multipart/form-data"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(
    url=TEXTS.map(lambda text: f"http://a.example/{text}"),
    headers=VALUES | st.lists(st.fixed_dictionaries({"name": TEXTS, "value": TEXTS}), max_size=3),
    posted=VALUES | st.fixed_dictionaries({"mimeType": TEXTS, "text": TEXTS, "params": VALUES}),
    response=VALUES | st.fixed_dictionaries({"status": st.integers(-1, 700)}),
)
def test_recordings_of_any_shape_end_well(
    place: Path, url: str, headers: Any, posted: Any, response: Any
) -> None:
    keys = {"method": "POST", "headers": headers, "postData": posted}
    text = recording(entry(url, **keys) | {"response": response}, entry("http://a.example/z"))
    survives(text.encode(), ".har", place)
