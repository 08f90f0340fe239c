"""``pgdyno import`` and ``pgdyno run`` of JMeter plans and HAR files: the server gets what they say."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from web_servers import Shop, shop

if TYPE_CHECKING:
    from printed import Said

pytestmark = pytest.mark.server

EXAMPLES = Path(__file__).parent / "imports"
VISIT = {
    "GET /login": 4,
    "POST /order": 20,
    "GET /shop/41/a%20b": 40,
    "PUT /check": 20,
    "GET /hops/1": 20,
    "GET /hops/0": 20,
    "GET /shop": 20,
}
"""Requests of the plan: four threads, five loops; the log-in once."""


@pytest.fixture(scope="module")
def web() -> Iterator[Shop]:
    with shop() as running:
        yield running


@pytest.fixture
def files(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLES, tmp_path / "from")
    return tmp_path / "from"


def without_queries(requests: Counter[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for request, count in requests.items():
        counts[request.partition("?")[0]] += count
    return counts


def test_a_plan_is_run_as_it_is_and_again(
    web: Shop, pgdyno: Callable[..., Said], files: Path
) -> None:
    web.requests.clear()
    here = ("-D", "host=127.0.0.1", "-D", f"port={web.port}")
    said = pgdyno("run", str(files / "shop.jmx"), *here, "-o", "plan.db", "--format=json")
    assert said.status == 0, said.err
    result = json.loads(said.out)
    assert (result["ledger"]["done"], result["ledger"]["failed"]) == (20, 0)
    assert without_queries(web.requests) == VISIT
    pages = {each.partition("?")[2] for each in web.requests if "/a%20b" in each}
    assert pages <= {"page=1x", "page=2x", "page=3x"}
    assert "note: " in said.err
    assert 'the ResultCollector "View Results Tree" is left out' in said.err
    web.requests.clear()
    shutil.rmtree(files)
    again = pgdyno("run", "plan.db", "-o", "again.db")
    assert again.status == 0, again.err
    assert without_queries(web.requests) == VISIT


def test_a_plan_is_written_as_a_spec_that_runs(
    web: Shop, pgdyno: Callable[..., Said], files: Path
) -> None:
    web.requests.clear()
    said = pgdyno("import", str(files / "shop.jmx"), "-o", "to", "--url", web.url)
    assert said.status == 0, said.err
    assert sorted(path.name for path in Path("to").iterdir()) == [
        "shop.http",
        "shop.toml",
        "users.csv",
    ]
    assert said.out.replace(f"{files}/", "") == snapshot("""\
wrote to/shop.toml
wrote to/shop.http
wrote to/users.csv
note: shop.jmx: left out, since disabled: what begins in line 239
note: shop.jmx:40: the header Connection is set by pgdyno
note: shop.jmx:47: after a failed request a client goes on with its next transaction, not with the next request
note: shop.jmx:80: the JSONPostProcessor "Token" has a default value; here a response without the value fails
note: shop.jmx:245: the ResultCollector "View Results Tree" is left out
run it with: pgdyno run to/shop.toml
""")
    run = pgdyno("run", "to/shop.toml", "-o", "spec.db")
    assert run.status == 0, run.err
    assert without_queries(web.requests) == VISIT
    refused = pgdyno("import", str(files / "shop.jmx"), "-o", "to")
    assert refused.status == 1
    assert "already exists" in refused.err


def test_recordings_are_repeated(web: Shop, pgdyno: Callable[..., Said], files: Path) -> None:
    web.requests.clear()
    refused = pgdyno("run", str(files / "chromium.har"), "-T1")
    assert (refused.status, refused.code) == (1, "import-several-servers")
    assert "https://shop.example (5) and https://cdn.example (1)" in refused.err
    said = pgdyno(
        *("import", str(files / "chromium.har"), "-o", "to", "--format=json"),
        *("--origin", "https://shop.example", "--url", web.url),
    )
    assert said.status == 0, said.err
    written = json.loads(said.out)
    assert not written["missing"]
    assert any("(1): requests to https://cdn.example" in each for each in written["notes"])
    assert "recorded" not in Path("to/chromium.http").read_text()
    run = pgdyno("run", "to/chromium.toml", "-t2", "-c3", "-o", "chromium.db")
    assert run.status == 0, run.err
    assert web.requests == {
        "GET /login?next=%2Fshop": 6,
        "GET /status/404?q=a%7Cb": 6,
        "POST /order": 6,
    }
    web.requests.clear()
    run = pgdyno("run", str(files / "firefox.har"), "--url", web.url, "-t2", "-o", "firefox.db")
    assert run.status == 0, run.err
    assert web.requests == {"GET /hops/0": 2, "GET /shop": 2, "PUT /cart": 2}


REFUSED = {
    ("run", "from/none.jmx", "-T1"): "from/none.jmx cannot be read: No such file or directory",
    ("import", "from"): "from is neither a JMeter test plan, nor a HAR file, nor a capture",
    ("run", "-f", "from/shop.jmx", "-T1"): "-f from/shop.jmx: this is no script",
    ("import", "from/firefox.har", "--origin", "http://a.example"): "no request goes to",
    ("import", "from/firefox.har", "--origin", "shop"): "--origin: ",
    ("import", "from/firefox.har", "--url", "shop"): "--url: ",
    ("import", "from/shop.jmx", "-D", "threads=many"): 'a number of threads of "many"',
}


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_wrong_use_is_refused(number: int, pgdyno: Callable[..., Said], files: Path) -> None:
    arguments, why = list(REFUSED.items())[number]
    said = pgdyno(*arguments)
    assert (said.status, why in said.err) == (1, True), said.err
    assert [path.name for path in files.parent.iterdir()] == ["from"]


def test_files_elsewhere_are_read_when_allowed(
    web: Shop, pgdyno: Callable[..., Said], files: Path
) -> None:
    (files / "users.csv").rename(files.parent / "users.csv")
    plan = files / "shop.jmx"
    plan.write_text(plan.read_text().replace("users.csv", "../users.csv"))
    here = (str(plan), "-D", "host=127.0.0.1", "-D", f"port={web.port}")
    for command in (("run", "-o", "a.db"), ("import", "-o", "to")):
        web.requests.clear()
        said = pgdyno(*command, *here)
        assert (said.status, "--allow-files" in said.err) == (1, True), said.err
        assert str(files.parent / "users.csv") in said.err
        assert not web.requests
        assert pgdyno(*command, *here, "--allow-files").status == 0
        assert without_queries(web.requests) == (VISIT if "run" in command else {})


def test_a_script_reads_lines_of_a_file(web: Shop, pgdyno: Callable[..., Said]) -> None:
    web.requests.clear()
    Path("a dir").mkdir()
    Path("a dir/lines.csv").write_text('name,size\n"x, y",1\nz,2\n')
    Path("a dir/visit.http").write_text("\\csv lines.csv\n\\get /shop?name=:{name}1&size=:size\n")
    said = pgdyno("run", "--url", web.url, "-f", "a dir/visit.http", "-c2", "-t3", "-o", "a.db")
    assert said.status == 0, said.err
    assert web.requests == {"GET /shop?name=x%2C%20y1&size=1": 3, "GET /shop?name=z1&size=2": 3}
    Path("a dir/visit.http").write_text("\\csv lines.csv name\n\\get /shop?name=:name\n")
    short = pgdyno("run", "--url", web.url, "-f", "a dir/visit.http", "-t1")
    assert (short.status, "line 1 of lines.csv has 2 values, and 1" in short.err) == (1, True)
    Path("a dir/visit.http").write_text("\\csv none.csv name\n\\get /shop?name=:name\n")
    gone = pgdyno("run", "--url", web.url, "-f", "a dir/visit.http", "-t1")
    assert (gone.status, gone.code, "none.csv" in gone.err) == (1, "csv-file", True)
