"""Bodies of imported requests: the server gets them byte for byte, or the import says why not."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from printed import Said

pytestmark = pytest.mark.server

TEXTS = [
    "a\r\nb\r\n",
    "\n\n first\n\tsecond \n\n",
    "\r",
    " ",
    '\n{\n  "a": [1,\n\n  2]\n}\n',
    "<a>\r\n  <b/>\r\n</a>",
    ":txn :{scale} ::empty :{cr} :cr",
    "ends with a backslash\\",
    "back\\\nslash",
    "no break\u00a0",
    "\u2028ends\u2028in\u0085odd lines\u0085",
    "-- no comment\n\\get /no\nselect 1;",
    "é€𝄞",
    "tab\tin it",
]
PARTS = "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\n"  # Browsers end it so.


class Heard(ThreadingHTTPServer):
    """A server that keeps bodies, in order."""

    daemon_threads = True
    bodies: list[bytes]


class _Keeping(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Heard

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def web() -> Iterator[Heard]:
    server = Heard(("127.0.0.1", 0), _Keeping)
    server.bodies = []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def posted(web: Heard, **body: Any) -> dict[str, Any]:
    return {
        "startedDateTime": "2026-11-20T10:00:00Z",
        "request": {
            "method": "POST",
            "url": f"http://127.0.0.1:{web.server_port}/",
            "postData": {"mimeType": "text/plain", **body},
        },
        "response": {"status": 204},
    }


def recorded(*entries: dict[str, Any]) -> str:
    Path("bodies.har").write_text(json.dumps({"log": {"entries": entries}}))
    return "bodies.har"


def test_bodies_of_recordings_are_sent_byte_for_byte(
    web: Heard, pgdyno: Callable[..., Said]
) -> None:
    as_text = [posted(web, text=text) for text in TEXTS]
    as_bytes = [
        posted(web, text=base64.b64encode(text.encode()).decode(), encoding="base64")
        for text in TEXTS
    ]
    forms = [
        posted(web, mimeType="application/x-www-form-urlencoded", text=" a=1&b=:txn\n\n"),
        posted(web, mimeType="multipart/form-data; boundary=x", text=PARTS),
    ]
    file = recorded(*as_text, *as_bytes, *forms)
    said = pgdyno("run", file, "-t1", "-c1", "-o", "a.db")
    assert said.status == 0, said.err
    wanted = [text.encode() for text in [*TEXTS, *TEXTS, " a=1&b=:txn\n\n", PARTS]]
    assert web.bodies == wanted
    web.bodies.clear()
    assert pgdyno("import", file, "-o", "to").status == 0
    assert pgdyno("run", "to/bodies.toml", "-t1", "-c1", "-o", "b.db").status == 0
    assert web.bodies == wanted


@pytest.mark.parametrize(
    "body",
    [
        {"text": base64.b64encode(b"\xff\xfe").decode(), "encoding": "base64"},
        {"text": "%%%", "encoding": "base64"},
        {"text": "a", "encoding": "gzip"},
        {"text": "a\0b"},
        {"text": "a=1\r\n", "mimeType": "application/x-www-form-urlencoded"},
        {"params": [{"name": "a", "fileName": "a.png"}], "mimeType": "multipart/form-data"},
    ],
)
def test_what_cannot_be_sent_byte_for_byte_is_refused(
    body: dict[str, Any], web: Heard, pgdyno: Callable[..., Said]
) -> None:
    said = pgdyno("run", recorded(posted(web, **body)), "-t1", "-c1", "-o", "a.db")
    assert said.status == 1
    assert "log.entries[0]" in said.err
    assert not web.bodies


def test_bodies_of_plans_are_sent_byte_for_byte(web: Heard, pgdyno: Callable[..., Said]) -> None:
    def sampler(arguments: str, **keys: str) -> str:
        texts = {
            "HTTPSampler.domain": "127.0.0.1",
            "HTTPSampler.port": str(web.server_port),
            "HTTPSampler.path": "/",
            "HTTPSampler.method": "POST",
            **keys,
        }
        properties = "".join(f'<stringProp name="{k}">{v}</stringProp>' for k, v in texts.items())
        return (
            f'<HTTPSamplerProxy testname="a">{properties}<elementProp name="HTTPsampler.Arguments">'
            f'<collectionProp name="Arguments.arguments">{arguments}</collectionProp>'
            "</elementProp></HTTPSamplerProxy><hashTree/>"
        )

    raw = {"HTTPSampler.postBodyRaw": "true"}
    body = '<elementProp name=""><stringProp name="Argument.value">{}</stringProp></elementProp>'
    field = (
        '<elementProp name=""><stringProp name="Argument.name">a</stringProp>'
        '<stringProp name="Argument.value">{}</stringProp></elementProp>'
    )
    texts = ["{&#13;\n  &quot;a&quot;: 1&#13;\n}&#13;\n", "\n&lt;a&gt;\n\n  &lt;/a&gt; \n"]
    samplers = [
        *(sampler(body.format(text), **raw) for text in texts),
        sampler(field.format("x%26y+z:txn")),
    ]
    Path("a.jmx").write_text(
        '<jmeterTestPlan><hashTree><TestPlan testname="p"/><hashTree><ThreadGroup testname="g"/>'
        f"<hashTree>{''.join(samplers)}</hashTree></hashTree></hashTree></jmeterTestPlan>"
    )
    said = pgdyno("run", "a.jmx", "-t1", "-c1", "-o", "a.db")
    assert said.status == 0, said.err
    assert web.bodies == [
        b'{\r\n  "a": 1\r\n}\r\n',
        b"\n<a>\n\n  </a> \n",
        b"a=x%26y%20z%3Atxn",
    ]
