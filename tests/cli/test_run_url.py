"""``pgdyno run --url``: a web server is loaded without a database, and what is wrong is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from pgdyno.server import Cluster
from web_servers import Shop, shop

if TYPE_CHECKING:
    from printed import Said

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def web() -> Iterator[Shop]:
    with shop() as running:
        yield running


def test_urls_are_a_mix_in_summary_json_and_page(
    web: Shop, pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    web.requests.clear()
    urls = tmp_path / "urls"
    urls.write_text(f"# pages\n{web.url}/shop\n\n{web.url}/hops/1\n{web.url}/shop\n")
    said = pgdyno("run", "--url-list", str(urls), "-c4", "-t20", "--format=json", "-o", "web.db")
    assert said.status == 0, said.err
    result = json.loads(said.out)
    assert result["verdict"]["finding"] is None
    assert "no database server was named" in result["verdict"]["sentence"]
    done = {each["statement"]: each["done"] for each in result["statements"]}
    assert done["GET /shop"] + done["GET /hops/1"] == 80 == result["ledger"]["done"]
    assert done["redirects of GET /hops/1"] == 2 * done["GET /hops/1"]
    assert all(each["first_byte_ms"]["count"] == each["done"] for each in result["statements"])
    http = result["groups"][0]["http"]
    assert http["requests"] == sum(web.requests.values()) == sum(done.values())
    shown = pgdyno("show", "web.db")
    assert shown.out.startswith(f"{web.url} · ")
    assert f"requests    {http['requests']} sent" in shown.out
    assert pgdyno("report", "web.db", "-o", "web.html").status == 0


def test_a_run_file_and_a_spec_are_run_again(
    web: Shop, pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    (tmp_path / "visit.http").write_text("\\get /login\n\\get /shop\n\\contains sid=7\n")
    (tmp_path / "web.toml").write_text(
        f'name = "web"\n[http]\nurl = "{web.url}"\n'
        "[workload]\nscript = [{ file = 'visit.http' }, { request = '/close', weight = 2 }]\n"
    )
    said = pgdyno("run", "web.toml", "-t10", "-c2", "-o", "web.db")
    assert said.status == 0, said.err
    again = pgdyno("run", "web.db", "-t10", "-o", "again.db", "--format=json")
    assert again.status == 0, again.err
    assert {each["script"] for each in json.loads(again.out)["statements"]} == {
        "visit",
        "GET /close",
    }


REFUSED = {
    "ftp://127.0.0.1/": "is not a URL such as",
    "http://user@127.0.0.1/": "a URL with a user name",
    "http://127.0.0.1:99999/": "is not a URL",
    "http://127.0.0.1/ö": "must percent-encode",
    "http://": "is not a URL such as",
}


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_no_url_is_refused(number: int, pgdyno: Callable[..., Said]) -> None:
    url, why = list(REFUSED.items())[number]
    said = pgdyno("run", "--url", url, "-T1")
    assert said.status == 1
    assert said.err.startswith("error: --url: ")
    assert why in said.err
    beside_a_database = pgdyno("run", "--url", url, "postgresql://nobody@127.0.0.1:1/none", "-T1")
    assert (beside_a_database.status, beside_a_database.err) == (1, said.err)


def test_what_is_no_url_is_named_by_its_line(pgdyno: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("# the shop\nhttp://127.0.0.1:1/a\n\nfoo\n")
    said = pgdyno("run", "--url-list", "urls.txt", "-T1")
    assert said.status == 1
    assert said.err == snapshot(
        'error: urls.txt:4: "foo" is not a URL such as http://127.0.0.1:8080/path\n'
    )


def test_contradictions_are_refused(web: Shop, pgdyno: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("select 1;\n")
    (tmp_path / "a.http").write_text("\\get /shop\n")
    (tmp_path / "web.toml").write_text(f'[http]\nurl = "{web.url}"\n')
    refused = [
        (("--url", web.url, "--url", "http://localhost:1/"), "the URLs are on several servers"),
        (("--url", web.url, "tpcb-like"), "which is SQL"),
        (("--url", web.url, "-f", "a.sql"), "a.sql:1:1: this is SQL"),
        (("--url-list", "missing"), "cannot be read"),
        (("--url", web.url, "-M", "simple"), "load.protocol cannot be used with http"),
        (("--url", web.url, "--front-metrics", "ftp://a/"), "error: --front-metrics: "),
        (("--url", web.url, "--front-metrics", web.url), "with a database that is known"),
        (("--url", "http://127.0.0.1:1/"), "cannot connect to 127.0.0.1:1: Connection refused"),
    ]
    for arguments, why in refused:
        said = pgdyno("run", *arguments, "-T1")
        assert (said.status, why in said.err) == (1, True), said.err
    said = pgdyno("storm", "web.toml")
    assert (said.status, said.code) == (1, "no-requests"), said.err
    said = pgdyno("investigate", "web.toml")
    assert (said.status, said.code) == (1, "no-control"), said.err


def test_with_its_database_the_run_is_watched_and_diagnosed(
    web: Shop, pg18: Cluster, pgdyno: Callable[..., Said]
) -> None:
    conninfo = pg18.conninfo.uri_without_password
    said = pgdyno(
        *("run", "--url", f"{web.url}/shop", "--control", conninfo, "-c2", "-T4"),
        *("--format=json", "-o", "web.db"),
    )
    assert said.status in (0, 4), said.err
    result = json.loads(said.out)
    assert "no database server" not in result["verdict"]["sentence"]
    assert result["findings"]
    assert result["ledger"]["failed"] == 0
    shown = pgdyno("show", "web.db").out
    assert shown.startswith(f"{web.url} in front of PostgreSQL 18")
