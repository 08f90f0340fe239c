"""Questions to REST interfaces on loopback: those of Patroni and etcd."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

from msgspec import Struct, field

OK = 200
_ANSWER_S_MAX = 3.0


class RestAnswer(Struct, frozen=True):
    """An answer; status 0 if there was none."""

    status: int = 0
    value: Any = field(default_factory=dict)
    """The JSON value in it, or its text."""

    @property
    def ok(self) -> bool:
        """True for status 200."""
        return self.status == OK

    def says(self, name: str, value: object) -> bool:
        """True if it is an object with this member."""
        return isinstance(self.value, dict) and self.value.get(name) == value


def ask(
    port: int,
    path: str,
    *,
    method: str = "GET",
    body: object = None,
    login: tuple[str, str] | None = None,
    seconds_max: float = _ANSWER_S_MAX,
) -> RestAnswer:
    """Ask the interface on this port of 127.0.0.1; ``login`` is a name and a password."""
    headers = {"Content-Type": "application/json"}
    if login is not None:
        coded = base64.b64encode(":".join(login).encode()).decode()
        headers["Authorization"] = f"Basic {coded}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds_max)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, body=text, headers=headers)
        response = connection.getresponse()
        return RestAnswer(response.status, _value(response.read().decode(errors="replace")))
    except (OSError, http.client.HTTPException):
        return RestAnswer()
    finally:
        connection.close()


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
