"""A setup is split where psql would split it, and nowhere else."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from pgdyno._engine import MadeRows, ScriptError
from pgdyno.errors import UsageError
from pgdyno.workload._pieces import lines_of, statements

Piece = tuple[bytes, bytes | None]
"""A statement, and the rows that follow it."""

DISTRACTING = "COPY t FROM stdin;\n'\"$$/*--\\.\\connect x\n;()begin end case é"
WORDS = st.sampled_from(["select", "1", "a$b", "x", ",", "=", "-", "é", "$1", "from", "e", "E"])


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


TEXTS = st.text(alphabet=DISTRACTING + "ab ", max_size=30)
ANY = TEXTS | st.just(DISTRACTING)
TOKENS = st.one_of(
    WORDS,
    ANY.map(_string),
    ANY.map(_escaped),
    ANY.map(_escaped).map(lambda text: f"{text}\n'it''s \\' too'"),
    ANY.map(lambda text: "U&" + _string(text)),
    ANY.map(lambda text: '"' + text.replace('"', '""') + '"'),
    ANY.map(lambda text: f"$${text.replace('$', '')}$$"),
    ANY.map(lambda text: f"$tag_1$ $$ {text.replace('$', '')}$tag_1$"),
    ANY.map(lambda text: f"/* {text.replace('*', '').replace('/', '')} /* ; */ ' */"),
    ANY.map(lambda text: "--" + text.replace("\n", " ").replace("\r", " ") + "\n"),
    st.just("(select 1; copy t from stdin;)"),
    st.just("copy_t from 'stdin'"),
)
PLAIN = st.lists(TOKENS, min_size=1, max_size=6).map(lambda tokens: f"do {' '.join(tokens)} ;")
FUNCTION = ANY.map(
    lambda text: (
        "create or replace function f(begin_at int) returns int begin atomic\n"
        f" select case when {_string(text)} = '' then 1 else 2 end; select 3; end;"
    )
)
COPY = st.sampled_from(
    [
        'COPY public.t (a, "b;") FROM stdin;',
        'copy "T;" from STDIN with (format csv);',
        "copy/* stdin */t from -- ;\nstdin where a > 1;",
    ]
)
ROWS = st.lists(
    st.text(alphabet="ab\\;'\"$\t .é", max_size=10).filter(lambda row: row != "\\."), max_size=5
).map(lambda rows: "".join(f"{row}\n" for row in rows).encode())
PIECES = st.lists(
    st.one_of(
        PLAIN.map(lambda sql: (sql.encode(), None)),
        FUNCTION.map(lambda sql: (sql.encode(), None)),
        st.tuples(COPY.map(str.encode), ROWS),
    ),
    max_size=6,
)


def split(text: bytes) -> list[Piece]:
    found = []
    for each in statements("f.sql", lines_of("f.sql", BytesIO(text))):
        rows = None if each.rows is None else b"".join(each.rows)
        found.append((each.sql.strip(), rows))
    return found


@given(PIECES, st.sampled_from([b"\n", b"\r\n"]))
def test_assembled_pieces_come_back(pieces: list[Piece], end: bytes) -> None:
    text = b"".join(
        sql + end + (b"" if rows is None else rows + b"\\." + end) for sql, rows in pieces
    )
    assert [piece for piece in split(text) if piece[0]] == pieces


@given(st.text(alphabet=DISTRACTING.replace("\\", ""), max_size=60))
def test_nothing_is_lost(text: str) -> None:
    try:
        found = split(text.encode())
    except UsageError as problem:
        assert problem.code == "setup-rows"
    else:
        if all(rows is None for _, rows in found):
            kept = b"".join(sql for sql, _ in found)
            assert b"".join(kept.split()) == b"".join(text.encode().split())


def test_places_and_tables() -> None:
    text = (
        b"\xef\xbb\xbf-- a dump\n\\restrict aB3\n\nselect 1; select\n  2;\n\n"
        b'-- rows\nCOPY public."It\'s" (a) FROM stdin;\n1\n2\n\\.\n'
        b"\n\n  select 3;\n\\unrestrict aB3\n"
    )
    found = list(statements("f.sql", lines_of("f.sql", BytesIO(text))))
    assert [(each.first_line, each.line, each.rows_line, each.table) for each in found] == snapshot(
        [(1, 4, 0, None), (4, 4, 0, None), (5, 8, 9, "It's"), (12, 14, 0, None), (14, 14, 0, None)]
    )
    assert not any(b"restrict" in each.sql for each in found)


def test_rows_that_are_made_have_the_variables_before_them() -> None:
    text = (
        b"create table t (a int, b text);\n\\set n 3 * \\\n  :scale\n-- rows\ncopy t (a, b)\n"
        b"  from stdin \\rows :n :row, \\\n  text_of(:row, 4)\nselect 1;\n"
    )
    found = list(statements("f.sql", lines_of("f.sql", BytesIO(text))))
    assert [each.line for each in found] == [1, 5, 8]
    made = found[1].made
    assert made is not None
    assert found[1].rows is None
    assert made.split("\n")[:3] == ["", "\\set n 3 * \\", "  :scale"]
    rows = MadeRows(made, "f.sql", [("scale", "2")], 1).piece(1 << 16)
    assert rows is not None
    assert [int(line.split(b"\t")[0]) for line in rows.splitlines()] == [*range(6)]
    with pytest.raises(ScriptError, match=r"f\.sql:2:.*not defined"):
        MadeRows(made.replace(":scale", ":other"), "f.sql", [], 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 1 \\set n 3\n", "f.sql:1: \\set is not SQL"),
        ("select 1 \\rows 3 :row\n", "f.sql:1: \\rows is not SQL"),
        ("select 1;\n\\connect shop\n", "f.sql:2: \\connect is not SQL"),
        ("\\! rm -rf /tmp/x\n", "f.sql:1: \\! is not SQL"),
        ("select 1 \\gexec\n", "f.sql:1: \\gexec is not SQL"),
        ("\\restrict\n", "f.sql:1: \\restrict is not SQL"),
        ("\\restrict x \\! id\n", "f.sql:1: \\restrict is not SQL"),
        ("\\\x1b[2Jx\n", "f.sql:1: \\\\x1b[2Jx is not SQL"),
        ("\\.\n", "f.sql:1: \\. is not SQL"),
        ("select 1;\ncopy t from stdin;\n1\n2\n", "f.sql:2: the rows of COPY … FROM stdin have no"),
        ("copy t from stdin; select 2;\n\\.\n", "f.sql:1: there is text behind COPY"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as found:
        split(text.encode())
    assert found.value.message.startswith(said)
    assert found.value.hint
