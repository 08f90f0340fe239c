"""Applications of a captured load: clients that do other things than others, and the client groups
that are made of them."""

from __future__ import annotations

from inline_snapshot import snapshot

from pgdyno.capture._applications import applications_of
from pgdyno.capture._sampling import Client, Connected
from pgdyno.capture._transactions import Kind
from pgdyno.clone import clone_of
from pgdyno.clone.capture_file import Application, Capture, Source, Statement, Step, Transaction

KINDS = [
    Kind(("a", "b"), 6000.0, block=True),
    Kind(("c",), 3000.0, block=False),
    Kind(("d",), 600.0, block=False),
]
WEB, JOBS, SHELL = ("shop", "web"), ("shop", "jobs"), ("ann", "psql")
CONNECTED = {
    WEB: Connected(8.0, 6.4),
    JOBS: Connected(20.0, 0.5),
    SHELL: Connected(1.0, 0.0),
}


def seen(**times: dict[Client, int]) -> list[tuple[Client, list[str]]]:
    return [
        (client, list(ids))
        for ids, clients in times.items()
        for client, count in clients.items()
        for _ in range(count)
    ]


def test_clients_that_do_other_things_are_applications() -> None:
    found = applications_of(
        KINDS, seen(ab={WEB: 100, SHELL: 1}, c={WEB: 10, JOBS: 40}), CONNECTED, 60.0
    )
    assert found == (
        Application(20, 0.5, (0.0, 40.0, round(10 * 40 / 151, 4))),
        Application(9, 6.4, (100.0, 10.0, round(10 * 111 / 151, 4))),
    )


def test_clients_that_do_the_same_are_one() -> None:
    assert not applications_of(KINDS, seen(ab={WEB: 100, JOBS: 80}, c={JOBS: 9}), CONNECTED, 60.0)


def test_a_few_looks_make_no_application() -> None:
    assert not applications_of(KINDS, seen(ab={WEB: 100}, c={JOBS: 19}), CONNECTED, 60.0)
    assert not applications_of(KINDS, seen(ab={WEB: 5}, c={JOBS: 9}), CONNECTED, 60.0)
    assert not applications_of([], seen(ab={WEB: 50}, c={JOBS: 90}), {}, 60.0)


def test_an_application_is_a_client_group() -> None:
    statement = Statement("select 1", (), 1.0, 1.0, 0.1, 0.0)
    capture = Capture(
        format="pgdyno capture",
        version=1,
        made_by="pgdyno 0",
        source=Source(16, 60.0, 150.0, 28, 6.9),
        tables=(),
        statements=(statement,),
        transactions=(Transaction(100.0, (Step(0),)), Transaction(50.0, (Step(0),), block=True)),
        gaps=(),
        applications=(Application(20, 0.5, (0.0, 40.0)), Application(8, 6.4, (100.0, 10.0))),
    )
    made = clone_of(capture, "shop")
    assert made.fields["clients"] == snapshot(
        [
            {
                "name": "application 1",
                "count": 20,
                "script": [{"file": "shop-2.sql", "weight": 1000}],
                "arrival": {"rate": 40.0},
            },
            {
                "name": "application 2",
                "count": 8,
                "script": [
                    {"file": "shop-1.sql", "weight": 1000},
                    {"file": "shop-2.sql", "weight": 100},
                ],
            },
        ]
    )
    assert len(made.scripts) == 2
    (group,) = clone_of(capture, "shop", one_group=True).fields["clients"]
    assert (group["name"], group["count"]) == ("captured", 28)
