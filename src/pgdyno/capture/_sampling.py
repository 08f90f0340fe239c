"""Transactions from samples of sessions: which statements are in one, and in what order.

The sessions' rows are read in bursts, as fast as the server answers, so that of a transaction of
some milliseconds several statements are seen. Texts are not read: a statement is its id, which
pg_stat_statements has too. Sub-millisecond transactions are hardly seen twice; their statements
stay apart unless they are executed equally often. A session that waits for its client is seen with
its last statement.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from pgdyno.capture._course import Burst
from pgdyno.capture._queries import rows_of
from pgdyno.capture._units import LOOP_MAX, Run, with_one_moved
from pgdyno.wait_events import wait_class

if TYPE_CHECKING:
    import psycopg

    from pgdyno.json_types import Row

SHARE_MAX = 0.01
"""Share of the time in which sessions are read, of a minute or more."""
LOOKS_S_MIN = 0.5
"""Time in which they are read in a shorter period."""
LOOKS_S_MAX = 60.0
"""Time in which they are read in a longer one: all that is seen is kept until its end."""
BURST_S = 0.05
_REPEATED_MIN = 0.1
"""Part of the transactions with a statement in which it is seen again, if it is in a loop: two
transactions may be taken for one by chance."""
_PARSED_LOOKS, _PARSED = 3, 0.05
"""Looks at a statement that has no id yet, and their share of all looks at it, from which on it is
parsed each time."""
PAUSE_S_MAX = 5.0
"""Longest pause of the function that is called between bursts."""
Client: TypeAlias = tuple[str, str]
"""Role and name of the application."""


class Connected(Struct, frozen=True):
    """Sessions of a client, on average."""

    sessions: float = 0.0
    busy: float = 0.0
    """Those within a transaction."""


class Samples:
    """Statements of transactions that were seen."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._seen: defaultdict[tuple[int, int], dict[int, str]] = defaultdict(dict)
        """Process and beginning of a transaction → beginning of a statement → its id."""
        self._bursts: list[defaultdict[int, dict[int, str]]] = []
        """Of each burst: process → beginning of a statement → its id."""
        self._busy: Counter[int] = Counter()
        """Process → looks in which it was within a transaction."""
        self._sent: defaultdict[str, Counter[bool]] = defaultdict(Counter)
        """Id of a statement → looks at it with and without parameters in its text."""
        self._executed: Counter[str] = Counter()
        """Id of a statement → looks at sessions that execute it, and wait for nothing."""
        self._parsing: Counter[int] = Counter()
        """Text of a statement, as a hash → looks at sessions that have begun with it, and of which
        the server does not know the id yet."""
        self._ids: defaultdict[int, set[str]] = defaultdict(set)
        """By texts with parameters."""
        self.waits: Counter[str] = Counter()
        """Class of waits → sessions at work that were seen in it."""
        self.looks = 0
        self._clients: dict[int, Client] = {}
        """By the process."""
        self._connected: Counter[Client] = Counter()
        """Sessions of each in all bursts."""
        self.bursts: list[Burst] = []
        self._present: list[frozenset[int]] = []
        """Processes of all clients, at each burst."""

    def watch(self, seconds: float, between: Callable[[], None]) -> None:
        """Read sessions for so long, in bursts, and call a function between them. Raises
        psycopg.Error."""
        looks_s = min(LOOKS_S_MAX, max(SHARE_MAX * seconds, min(LOOKS_S_MIN, seconds / 2)))
        bursts = max(1, round(looks_s / BURST_S))
        ends_s = time.monotonic() + seconds
        for left in range(bursts, 0, -1):
            self._bursts.append(defaultdict(dict))
            self._look_at_clients()
            self._burst()
            between()
            left_s = ends_s - time.monotonic() - (left - 1) * BURST_S
            next_s = time.monotonic() + left_s / left
            while (pause_s := next_s - time.monotonic()) > PAUSE_S_MAX:
                time.sleep(PAUSE_S_MAX)
                between()
            time.sleep(max(0.0, pause_s))

    def _burst(self) -> None:
        ends_s = time.monotonic() + BURST_S
        looks, busy = self.looks, self._busy.total()
        while time.monotonic() < ends_s:
            self._look()
        number = self.looks - looks
        mean = (self._busy.total() - busy) / max(1, number)
        # The look at clients is a query, too.
        self.bursts.append(Burst(time.monotonic(), len(self._present[-1]), mean, number + 1))

    def _look(self) -> None:
        self.looks += 1
        for row in rows_of(self._connection, "sessions"):
            if row["query_id"] is not None:
                self._add(row)
            elif row["state"] == "active" and row["has_parameters"]:
                self._parsing[row["text"]] += 1
            wait = wait_class(row["state"], row["wait_event_type"], row["wait_event"])
            if wait not in (None, "client"):
                self.waits[str(wait)] += 1

    def _add(self, row: Row) -> None:
        pid, sent_us, statement = row["pid"], row["sent_us"], row["query_id"]
        self._bursts[-1][pid][sent_us] = statement
        self._sent[statement][row["has_parameters"]] += 1
        self._executed[statement] += row["state"] == "active" and not row["wait_event_type"]
        if row["has_parameters"]:
            self._ids[row["text"]].add(statement)
        if row["began_us"] is not None:
            self._seen[pid, row["began_us"]][sent_us] = statement
            self._busy[pid] += 1

    def sends_values(self, statements: Collection[str]) -> bool | None:
        """Return whether clients send statements with parameters as texts that have the values, as
        in the simple protocol; None if none of these statements was seen."""
        looks: Counter[bool] = Counter()
        for each in statements:
            looks.update(self._sent.get(each, {}))
        return looks[False] > looks[True] if looks else None

    def are_parsed(self, statements: Collection[str]) -> bool:
        """Return whether clients have the server parse some statements each time: it has no id for
        them until it has. A prepared one has its id from the beginning."""
        texts = [text for text, ids in self._ids.items() if not ids.isdisjoint(statements)]
        parsing = sum(self._parsing[each] for each in texts)
        executed = sum(self._executed[each] for each in statements)
        return parsing >= max(_PARSED_LOOKS, _PARSED * (parsing + executed))

    @property
    def queries(self) -> int:
        """Queries, each of which is a transaction."""
        return self.looks + len(self._bursts)

    def _look_at_clients(self) -> None:
        found = {
            int(row["pid"]): (row["role"], row["application"])
            for row in rows_of(self._connection, "clients")
        }
        self._clients |= found
        self._present.append(frozenset(found))
        self._connected.update(found.values())

    def by_client(self) -> list[tuple[Client, list[str]]]:
        """Return the ids of the statements that were seen of each transaction, and of each
        statement that was only seen after it had ended, with the client."""
        pids = [pid for pid, _ in self._seen]
        within = {(pid, at) for (pid, _), ids in self._seen.items() for at in ids}
        ended = {
            (pid, at): each
            for pid, seen in self.runs()
            for at, each in seen
            if (pid, at) not in within
        }
        pairs = [*zip(pids, self.sequences(), strict=True)]
        pairs += [(pid, [each]) for (pid, _), each in ended.items()]
        return [(self._clients[pid], ids) for pid, ids in pairs if pid in self._clients]

    def connected(self) -> dict[Client, Connected]:
        """Return the sessions of each client, on average."""
        busy: Counter[Client] = Counter()
        for pid, looks in self._busy.items():
            if pid in self._clients:
                busy[self._clients[pid]] += looks
        return {
            each: Connected(number / len(self._bursts), busy[each] / max(1, self.looks))
            for each, number in self._connected.items()
        }

    def sessions(self, statements: Collection[str]) -> tuple[int, float]:
        """Return how many sessions that executed some of these statements there were at a time, at
        most, and how many of them were within a transaction on average."""
        mine = {
            pid
            for burst in self._bursts
            for pid, ids in burst.items()
            if not {*ids.values()}.isdisjoint(statements)
        }
        most = max((len(mine & present) for present in self._present), default=0)
        return max(most, min(1, len(mine))), sum(self._busy[pid] for pid in mine) / max(
            1, self.looks
        )

    def sequences(self) -> list[list[str]]:
        """Return the ids of the statements that were seen of each transaction, in order."""
        return [[ids[at] for at in sorted(ids)] for ids in self._seen.values()]

    def runs(self) -> list[Run]:
        """Return the statements that were seen of each session in each burst, in order."""
        return [
            (pid, sorted(seen.items())) for burst in self._bursts for pid, seen in burst.items()
        ]


class Together:
    """Statements that were seen in the same transactions."""

    def __init__(self, sequences: list[list[str]]) -> None:
        self.seen: Counter[str] = Counter()
        self._both: Counter[tuple[str, str]] = Counter()
        self._before: Counter[tuple[str, str]] = Counter()
        self._met: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Statement → those that were seen in a transaction with it, in order."""
        self._next: Counter[tuple[str, str]] = Counter()
        """Two statements, and how often the other one was the next that was seen."""
        self._repeated: Counter[str] = Counter()
        for ids in sequences:
            self._add(ids)

    def _add(self, ids: list[str]) -> None:
        first: dict[str, int] = {}
        for place, each in enumerate(ids):
            first.setdefault(each, place)
        self._repeated.update(each for each, count in Counter(ids).items() if count > 1)
        self._next.update(itertools.pairwise(ids))
        self.seen.update(first.keys())
        for one, place in first.items():
            for other, later in first.items():
                if one != other:
                    self._both[one, other] += 1
                    self._met[one][other] = None
                    self._before[one, other] += place < later

    def is_repeated(self, statement: str) -> bool:
        """Return whether a statement is executed several times in a transaction."""
        return self._repeated[statement] >= max(1.0, _REPEATED_MIN * self.seen[statement])

    def partners(self, statement: str) -> list[str]:
        """Return the statements that belong to the same transactions as one."""
        return [each for each in self._met[statement] if self.are_together(statement, each)]

    def are_together(self, one: str, other: str) -> bool:
        """Return whether two statements belong to the same transactions."""
        least = max(1.0, 0.02 * min(self.seen[one], self.seen[other]))
        return self._both[one, other] >= least

    def place(self, statement: str, others: list[str]) -> float:
        """Return the share of others that come before a statement."""
        shares = [
            self._before[other, statement] / self._both[other, statement]
            for other in others
            if self._both[other, statement]
        ]
        return sum(shares) / len(shares) if shares else 0.5

    def in_circle(self, statements: Sequence[str]) -> Sequence[str]:
        """Return the statements of a loop in order, from any of them on: so that it is not far from
        each to the next one that was seen. Many stay as they are."""

        def way(order: Sequence[str]) -> int:
            places = {each: place for place, each in enumerate(order)}
            return sum(
                count * ((places[other] - places[one]) % len(order))
                for (one, other), count in self._next.items()
                if one in places and other in places
            )

        best = tuple(statements)
        while len(best) <= LOOP_MAX:
            better = min(with_one_moved(best), key=way)
            if way(better) >= way(best):
                break
            best = better
        return best
