"""Ages: as they are given, as the next ID, in the server's log, and as rows of tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno._engine import Histogram
from pgdyno.errors import UsageError
from pgdyno.record import ErrorTotal, Ledger, StatementTotal
from pgdyno.scenario._age_rows import _INSERT, reads, tables_of, writes
from pgdyno.scenario.age import age_of, counts_of, parse_age, prepared_spec, request_of
from pgdyno.server.local.aging import next_id
from pgdyno.spec import spec_from_fields
from pgdyno.spec.age import unfit_setting

INSERT = "insert into t (a) values (:a)"


@pytest.mark.parametrize("text", ["1.9e9", "1900000000", "1,900,000,000"])
def test_an_age_as_it_is_given(text: str) -> None:
    assert parse_age(text) == 1_900_000_000


def test_an_age_of_a_spec() -> None:
    spec = spec_from_fields({"server": {"mxid_age": 1.7e9}})
    assert spec.server.mxid_age == 1_700_000_000
    assert age_of(spec, None, multixact=False) == ("mxid", 1_700_000_000)
    assert age_of(spec, "2e9", multixact=False) == ("xid", 2_000_000_000)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"server": {"xid_age": 1e9, "mxid_age": 1e9}}, "cannot be used together"),
        ({"server": {"xid_age": 2.2e9}}, "less than or equal to 2146983648"),
        ({"server": {"xid_age": 1.5}}, "integer"),
        ({"server": {"xid_age": True}}, "integer"),
        (
            {"server": {"xid_age": 1e9, "settings": {"wal_level": "minimal"}}},
            "wal_level is minimal",
        ),
        ({"server": {"kind": "existing", "xid_age": 1e9}}, "xid_age can only be used with kind"),
        ({"server": {"xid_age": 1e9}, "standby": {"count": 1}}, "no standby follows a server"),
    ],
)
def test_an_age_that_cannot_be(fields: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spec_from_fields(fields)


@pytest.mark.parametrize(
    ("level", "major", "fits"),
    [("replica", 18, False), ("replica", 19, True), ("replica", None, True),
     ("minimal", 19, False), ("logical", 14, True)],
)  # fmt: skip
def test_a_slot_raises_the_wal_level_from_19(level: str, major: int | None, fits: bool) -> None:
    assert (unfit_setting("xid", {"wal_level": level}, major) == "") == fits


def test_settings_of_the_user_have_precedence() -> None:
    spec = spec_from_fields({"server": {"settings": {"autovacuum_naptime": "1min"}}})
    prepared = prepared_spec(spec, "xid")
    assert prepared.server.settings["autovacuum_naptime"] == "1min"
    assert prepared.server.settings["wal_level"] == "logical"
    request = request_of(prepared, ("xid", 5), before_ms=3000, recovery_ms=1000)
    assert (request.before_s, request.seconds) == (3.0, 10.0)


def test_the_next_id_is_the_first_of_a_page() -> None:
    assert next_id("xid", 744, 1_700_000_000) == (51_880 * 32_768, False)
    number, next_epoch = next_id("xid", (1 << 32) - 100, 1_000_000)
    assert (number % 32_768, next_epoch) == (0, True)
    assert next_id("mxid", 1, 2047) == (2048, False)


LOG = b"""\
2026-01-01 LOG:  automatic aggressive vacuum to prevent wraparound of table "d.public.t": index
2026-01-01 WARNING:  bypassing nonessential maintenance of table "d.public.t" as a failsafe after 0
2026-01-01 WARNING:  database "template1" must be vacuumed within 1475275 transactions
2026-01-01 LOG:  automatic vacuum of table "d.public.t": index scans: 0
2026-01-01 LOG:  automatic vacuum to prevent wraparound of table "d.public.u": index scans: 0
"""


def test_the_log_is_counted_from_byte_to_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(LOG)
    monkeypatch.setattr("pgdyno.scenario.age.CHUNK_BYTES", 7)
    counts = counts_of(log, 0, len(LOG))
    assert (counts.vacuums, counts.failsafe, counts.warnings) == (2, 1, 1)
    assert counts.failsafe_tables == ("d.public.t",)
    after_the_first = LOG.index(b"\n") + 1
    assert counts_of(log, after_the_first, len(LOG)).vacuums == 1


def test_statements_that_read_and_write() -> None:
    assert reads("select * from t")
    assert not reads("select * from t where a = 1 for no key update")
    assert writes("select * from t for share")
    assert not writes("commit")
    assert not writes("select 1")
    assert writes("update t set a = 1")


@pytest.mark.parametrize(
    ("statement", "known"),
    [
        (INSERT, True),
        ("insert into t values (:a, now(), 'x') returning id", True),
        ("insert into t values (1), (2)", False),
        ("insert into t select 1", False),
        ("insert into t values (1) on conflict do nothing", False),
    ],
)
def test_insertions_of_one_row_can_be_counted(statement: str, known: bool) -> None:
    assert (_INSERT.fullmatch(statement) is not None) is known


class _Run:
    """The parts of a run file that the rows are taken from."""

    def __init__(
        self, *statements: tuple[str, int], errors: list[ErrorTotal] | None = None
    ) -> None:
        self._totals = [
            StatementTotal("clients", "s", position, text, done, 0, Histogram())
            for position, (text, done) in enumerate(statements)
        ]
        self._errors = errors or []

    def statements(self) -> list[StatementTotal]:
        return self._totals

    def errors(self) -> list[ErrorTotal]:
        return self._errors

    def ledger(self) -> Ledger:
        return Ledger(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def complete(run: _Run, before: int, after: int) -> bool | None:
    (table,) = tables_of(run, {"public.t": before}, {"public.t": after})  # type: ignore[arg-type]
    return table.complete


def test_rows_add_up() -> None:
    run = _Run(("begin", 9), (INSERT, 9), ("select 1 from u", 9), ("commit", 9))
    assert complete(run, 5, 14) is True
    assert complete(run, 5, 13) is False
    assert complete(run, 5, 15) is False


def test_rows_of_transactions_that_failed_later_may_be_missing() -> None:
    failed = ErrorTotal("clients", "s", "commit", "54000", False, False, 2, "no")
    run = _Run(("begin", 9), (INSERT, 9), ("commit", 7), errors=[failed])
    assert complete(run, 5, 12) is True
    assert complete(run, 5, 11) is False


def test_what_other_statements_do_is_not_known() -> None:
    assert complete(_Run((INSERT, 9), ("delete from t where a = 1", 1)), 5, 13) is None
    assert complete(_Run((INSERT, 9), ("delete from u where a = 1", 1)), 5, 14) is True
    assert complete(_Run((INSERT, 9), ("call everything()", 1)), 5, 14) is None


def test_an_error_that_a_script_expects_is_no_statement() -> None:
    text = "this is not a statement"
    error = ErrorTotal("clients", "s", text, "42601", True, False, 3, "no")
    assert complete(_Run((INSERT, 9), (text, 3), errors=[error]), 5, 14) is True
