"""People who chat: clients of Synapse's API, at a rate that does not depend on the answers."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

PEOPLE, ROOMS = 12, 6
RATE_PER_S = 24.0
"""Requests of all, which arrive at random."""
_ROOMS_OF_ONE = 3
_BEHIND_S_MAX = 1.0
"""Time by which a person may be late before what is due is forgotten."""
_ANSWER_S_MAX = 30
_CLIENT = "/_matrix/client/v3"
_WORDS = ("plan", "lunch", "build", "later", "thanks", "broken", "merged", "again", "tomorrow")


class Failed(Exception):
    """A request that was refused."""


class Person:
    """One who has registered, with a connection of their own. Used by one thread at a time."""

    def __init__(self, port: int, number: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S_MAX)
        self._random = random.Random(number)
        self.name = f"person-{number}"
        self.rooms: list[str] = []
        self._token = self._id = ""
        self._since: str | None = None
        self._events: dict[str, str] = {}
        """Room → the last message of this person's there."""
        self._sent = 0

    def asks(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request; return its answer. Raises Failed."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        content = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if response.status >= 400:
            raise Failed(f"{method} {path.split('?')[0]}: {response.status} {answer}")
        return answer

    def register(self, secret: str) -> None:
        """Register by the shared secret."""
        path = "/_synapse/admin/v1/register"
        nonce, password = self.asks("GET", path)["nonce"], "exam"
        parts = (nonce, self.name, password, "notadmin")
        code = hmac.new(secret.encode(), "\0".join(parts).encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": self.name, "password": password, "mac": code}
        answer = self.asks("POST", path, {**body, "admin": False})
        self._token, self._id = answer["access_token"], answer["user_id"]

    def opens_room(self) -> str:
        """Make a room that all may join; return its id."""
        body = {"preset": "public_chat", "name": self._text(3)}
        room: str = self.asks("POST", f"{_CLIENT}/createRoom", body)["room_id"]
        return room

    def joins(self, room: str) -> None:
        """Enter a room, in which this person then talks."""
        self.asks("POST", f"{_CLIENT}/join/{room}", {})
        self.rooms.append(room)

    def does_something(self) -> None:
        """Send one of the requests that a client sends, as often as it does. Raises Failed."""
        (action,) = self._random.choices([*_MIX], [*_MIX.values()])
        action(self)

    def _talks(self) -> None:
        room = self._random.choice(self.rooms)
        body = {"msgtype": "m.text", "body": self._text(self._random.randint(2, 30))}
        self._events[room] = self._sends(room, "m.room.message", body)

    def _reacts(self) -> None:
        if not self._events:
            return self._talks()
        room, event = self._random.choice([*self._events.items()])
        relation = {"rel_type": "m.annotation", "event_id": event, "key": self._text(1)}
        self._sends(room, "m.reaction", {"m.relates_to": relation, "at": self._sent})
        return None

    def _sends(self, room: str, kind: str, body: dict[str, Any]) -> str:
        self._sent += 1
        path = f"{_CLIENT}/rooms/{room}/send/{kind}/{self._sent}"
        event: str = self.asks("PUT", path, body)["event_id"]
        return event

    def _looks(self) -> None:
        since = "" if self._since is None else f"&since={self._since}"
        self._since = self.asks("GET", f"{_CLIENT}/sync?timeout=0{since}")["next_batch"]

    def _has_read(self) -> None:
        if self._events:
            room, event = self._random.choice([*self._events.items()])
            self.asks("POST", f"{_CLIENT}/rooms/{room}/receipt/m.read/{event}", {})

    def _types(self) -> None:
        path = f"{_CLIENT}/rooms/{self._random.choice(self.rooms)}/typing/{self._id}"
        self.asks("PUT", path, {"typing": True, "timeout": 2000})

    def _reads_back(self) -> None:
        room = self._random.choice(self.rooms)
        self.asks("GET", f"{_CLIENT}/rooms/{room}/messages?dir=b&limit=20")

    def _has_another_name(self) -> None:
        name = {"displayname": self._text(2)}
        self.asks("PUT", f"{_CLIENT}/profile/{self._id}/displayname", name)

    def _leaves_and_returns(self) -> None:
        room = self._random.choice(self.rooms)
        self.asks("POST", f"{_CLIENT}/rooms/{room}/leave", {})
        self.asks("POST", f"{_CLIENT}/join/{room}", {})

    def _text(self, words: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=words))

    def goes(self) -> None:
        """Close the connection."""
        self._connection.close()


_MIX: dict[Callable[[Person], None], int] = {
    Person._talks: 40,
    Person._looks: 35,
    Person._has_read: 8,
    Person._types: 6,
    Person._reads_back: 6,
    Person._reacts: 3,
    Person._has_another_name: 1,
    Person._leaves_and_returns: 1,
}


class Chat:
    """People in rooms, who rest until they are let go."""

    def __init__(self, people: list[Person]) -> None:
        self._people = people
        self._go, self._ended = threading.Event(), threading.Event()
        self._busy = [threading.Lock() for _ in people]
        self.done = self.failed = 0
        self.failures: list[str] = []
        self._counting = threading.Lock()
        self._threads = [
            threading.Thread(target=self._lives, args=(number,), daemon=True)
            for number in range(len(people))
        ]

    @classmethod
    @contextmanager
    def opened(cls, port: int, secret: str) -> Iterator[Self]:
        """Register people and make their rooms; they leave at the end of the block."""
        people = [Person(port, number) for number in range(PEOPLE)]
        for person in people:
            person.register(secret)
        rooms = [person.opens_room() for person in people[:ROOMS]]
        for number, person in enumerate(people):
            for step in range(_ROOMS_OF_ONE):
                person.joins(rooms[(number + step) % ROOMS])
        chat = cls(people)
        for thread in chat._threads:
            thread.start()
        try:
            yield chat
        finally:
            chat._ended.set()
            chat._go.set()
            for thread in chat._threads:
                thread.join()

    @contextmanager
    def going(self) -> Iterator[None]:
        """Let people chat within the block; at its end the last requests are answered."""
        self._go.set()
        try:
            yield
        finally:
            self._go.clear()
            for lock in self._busy:
                with lock:
                    pass

    def _lives(self, number: int) -> None:
        person, times = self._people[number], random.Random(f"times {number}")
        due_s = time.monotonic()
        while not self._ended.is_set():
            self._go.wait()
            due_s += times.expovariate(RATE_PER_S / PEOPLE)
            now_s = time.monotonic()
            if due_s < now_s - _BEHIND_S_MAX:
                due_s = now_s
            self._ended.wait(max(0.0, due_s - now_s))
            with self._busy[number]:
                if self._go.is_set() and not self._ended.is_set():
                    self._act(person)
        person.goes()

    def _act(self, person: Person) -> None:
        try:
            person.does_something()
            said = None
        except (Failed, OSError, http.client.HTTPException) as problem:
            said = str(problem)
        with self._counting:
            self.done += 1
            if said is not None:
                self.failed += 1
                self.failures.append(said)
