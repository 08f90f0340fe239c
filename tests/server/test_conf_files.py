"""Files of settings are read as the server reads them: ``pg_file_settings`` is asked about the same
bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from pgdyno.compare._conf_syntax import conf_lines_of
from pgdyno.compare.profile_file import conf_lines, parse_profile
from pgdyno.server import Cluster, Settings

pytestmark = pytest.mark.server


class Asked:
    """A server whose configuration file ends with what a test writes; it is never reloaded."""

    def __init__(self, cluster: Cluster) -> None:
        self.settings = Settings(cluster.conninfo)
        self._conn = psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True)
        ((name,),) = self._conn.execute("show config_file").fetchall()
        self._path = Path(name)
        self._before = self._path.read_bytes().rstrip(b"\n") + b"\n"
        self._first = self._before.count(b"\n")

    def close(self) -> None:
        self._conn.close()
        self._path.write_bytes(self._before)

    def rows(self, text: str) -> list[tuple[int, str | None, str | None, str | None]]:
        """Return line, name, value and error of each line of ``text`` that says something."""
        self._path.write_bytes(self._before + text.encode() + b"\n")
        found = self._conn.execute(
            "select sourceline, name, setting, error from pg_file_settings"
            " where sourceline > %s and sourcefile = %s order by seqno",
            (self._first, str(self._path)),
        ).fetchall()
        return [(number - self._first, *rest) for number, *rest in found]

    def read(self, text: str) -> list[tuple[int, str | None, str | None]]:
        """Return line, name and value of each line; without both for one that cannot be read.

        Of such lines the view has only the first: the server is asked again without it.
        """
        lines = text.split("\n")
        found: list[tuple[int, str | None, str | None]] = []
        while True:
            rows = [(number, name, value) for number, name, value, _ in self.rows("\n".join(lines))]
            begun = found[-1][0] if found else 0
            found += [row for row in rows if row[0] > begun]
            if not rows or rows[-1][1] is not None:
                return found
            lines[: rows[-1][0]] = [""] * rows[-1][0]

    def refuses(self, line: str) -> bool:
        return any(error is not None for *_, error in self.rows(line))


@pytest.fixture(scope="module", params=[15, 18])
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    cluster: Cluster = request.getfixturevalue(f"pg{request.param}")
    server = Asked(cluster)
    yield server
    server.close()


NAMES = [
    *("work_mem", "checkpoint_timeout", "random_page_cost", "enable_seqscan", "wal_compression"),
    *("log_min_messages", "temp_buffers", "vacuum_cost_delay", "min_wal_size", "Work_Mem"),
    *("application_name", "myapp.tenant", "_a1.b$c", "no_such", "a.b.c", "1abc", "é", ""),
    *("synchronous_commit", "commit_delay", "default_text_search_config", "array_nulls"),
]
NUMBERS = st.sampled_from(
    [
        *("0", "1", "-1", "+5", "64", "010", "08", "0x1F", "0XFF", "0x", "1e2", "1E2", "1.5", ".5"),
        *("1.", ".", "1,1", "1.5e1", "1e-1", "4294967296", "99999999999999999999", "1e400", "--1"),
    ]
)
UNITS = st.sampled_from(
    [
        *("", "kB", "KB", "kb", "MB", "M", "GB", "TB", "B", "b"),
        *("ms", "s", "min", "h", "d", "us", "x"),
    ]
)
BLANKS = st.sampled_from(["", "", "", " ", "\t", "  "])
AMOUNTS = st.tuples(NUMBERS, BLANKS, UNITS, BLANKS).map("".join)
WORDS = st.sampled_from(
    [
        *(
            "on",
            "off",
            "tru",
            "o",
            "FALSE",
            "1",
            "pglz",
            "PGLZ",
            "debug",
            "debug1",
            "local",
            "none",
        ),
        *("a.b", "a.b.c", "a-b", "a/b:c", "pg_catalog.english", "simple", "x=y", "é", "-", "$a"),
    ]
)
INSIDE = st.sampled_from(
    [
        *(
            "a",
            "1",
            " ",
            "''",
            "\\'",
            "\\\\",
            "\\n",
            "\\101",
            "\\7",
            "\\x",
            "#",
            '"',
            "é",
            "\t",
            "MB",
            "=",
        )
    ]
)
QUOTED = st.one_of(AMOUNTS, WORDS, st.lists(INSIDE, max_size=5).map("".join)).map(
    lambda t: f"'{t}'"
)
VALUES = st.one_of(
    AMOUNTS, WORDS, QUOTED, QUOTED, st.sampled_from(["", '"on"', "'", "'a", "'a'b", "#"])
)
TAILS = st.sampled_from(
    ["", "", "", " # x", "#x", " x", ";", "\r", " \r", "'", ",2", "\x0c", "=", " 'b'"]
)
LINES = st.one_of(
    st.tuples(
        BLANKS,
        st.sampled_from(NAMES),
        st.sampled_from(["=", " = ", " ", "\t=\t", "", "==", " =' "]),
        VALUES,
        TAILS,
    ).map("".join),
    st.text(alphabet="ab1.='#\\\" -+eExkB\r\t\x0b\u2028", max_size=12),
)
FILES = st.lists(LINES, min_size=1, max_size=20).map("\n".join)


@given(text=FILES)
def test_a_file_is_read_line_by_line_as_the_server_reads_it(asked: Asked, text: str) -> None:
    ours = [
        (line.number, None, None) if line.wrong else (line.number, line.name, line.value)
        for line in conf_lines_of(text)
    ]
    assert ours == asked.read(text)


@given(lines=st.lists(st.tuples(st.sampled_from(NAMES[:-3]), VALUES), min_size=1, max_size=12))
def test_names_and_values_are_refused_as_the_server_refuses_them(
    asked: Asked, lines: list[tuple[str, str]]
) -> None:
    profile = parse_profile("\n".join(f"{name} = {value}" for name, value in lines), name="p")
    rejected = asked.settings.rejections(profile.settings)
    written = conf_lines((each.setting, each.value, "") for each in profile.lines)
    for each, line in zip(profile.lines, written, strict=True):
        assert (each.setting in rejected) == asked.refuses(line), line


class Line(Struct, frozen=True):
    text: str
    hint: str


BAD = [
    Line("work_mem = 4096KB", "write 4096kB"),
    Line('maintenance_work_mem = "64MB"', "write maintenance_work_mem = 64MB"),
    Line("temp_buffers = 64M", "write 64MB"),
    Line("work_mem = 16Mb", "write 16MB"),
    Line("effective_cache_size = 1 GB", "write effective_cache_size = '1 GB'"),
    Line("random_page_cost = 1,1", "write random_page_cost = 1.1"),
    Line("max_wal_size = 1.5GB", "write max_wal_size = '1.5GB'"),
    Line("max_wal_size = 1e3", "write max_wal_size = '1e3'"),
    Line("checkpoint_timeout = 15 min", "write checkpoint_timeout = '15 min'"),
    Line("min_wal_size = '5993 kb'", "write 5993 kB"),
    Line("temp_buffers = '4294967296'", "without a unit it is a number of 8kB"),
    Line("work_mem = 4MB;", "write work_mem = 4MB"),
    Line("default_text_search_config = pg_catalog.english", "= 'pg_catalog.english'"),
]


@pytest.mark.parametrize("line", BAD, ids=lambda line: line.text)
def test_a_line_that_the_server_refuses_says_how_to_write_it(asked: Asked, line: Line) -> None:
    assert asked.refuses(line.text)
    profile = parse_profile(line.text, name="p")
    rejected = asked.settings.rejections(profile.settings)
    (hint,) = [each.hint for each in (*profile.problems, *rejected.values())]
    assert line.hint in (hint or "")
    if (wanted := line.hint.removeprefix("write ")) != line.hint and " = " in wanted:
        assert not asked.refuses(wanted)


def test_of_a_name_that_is_there_twice_the_last_line_counts(asked: Asked) -> None:
    text = "work_mem = 4MB\nWORK_MEM = 5MB\nwork_mem = 6MB\n"
    profile = parse_profile(text, name="p")
    assert profile.settings == {"work_mem": "6MB"}
    assert [each.number for each in profile.repeated] == [1, 2]
    assert not profile.problems
    assert len(asked.rows(text)) == 3
    assert not asked.refuses(text)


@pytest.mark.parametrize("major", [15, 18])
def test_settings_of_applications_and_of_libraries_not_loaded_yet(
    new_cluster: Callable[..., Cluster], major: int
) -> None:
    cluster = new_cluster(major)
    settings = Settings(cluster.conninfo)
    wanted = {
        "myapp.tenant": "a b",
        "auto_explain.log_min_duration": "7ms",
        "shared_preload_libraries": "auto_explain",
    }
    assert not settings.rejections(wanted)
    settings.apply(wanted)
    cluster.stop()
    cluster.start()
    with psycopg.connect(**cluster.conninfo.kwargs()) as conn:
        shown = [conn.execute(f"show {name}").fetchone() for name in wanted]
    assert shown == [("a b",), ("7ms",), ("auto_explain",)]
    settings.apply({"auto_explain.log_min_duration": "8ms"})
    refused = settings.rejections(
        {"auto_explain.log_min_duration": "long", "auto_explain.nothing": "1", "myapp.": "1"}
    )
    assert set(refused) >= {"auto_explain.log_min_duration", "myapp."}
    settings.restore_all()
    assert b"myapp" not in (cluster.data_dir / "postgresql.auto.conf").read_bytes()
