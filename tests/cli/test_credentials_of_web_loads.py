"""Credentials of a web load are in no file and no output of its run, unless they are asked for."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jmeter_plans import element, plan, request

from pgdyno.record import RunFile
from web_servers import Shop, shop

if TYPE_CHECKING:
    from printed import Said

pytestmark = [pytest.mark.server, pytest.mark.alike]

PASSWORD = "pw-Zebra-5"
BASIC = base64.b64encode(f"joe:{PASSWORD}".encode()).decode()
SECRETS = ["bearer-Zebra-1", "cookie-Zebra-2", "body-Zebra-3", "url-Zebra-4", BASIC, PASSWORD]
SCRIPT = f"""\
\\get /shop?api_key={SECRETS[3]}
\\header Authorization: Bearer {SECRETS[0]}
\\header Cookie: sid={SECRETS[1]}
\\post /shop
\\header Authorization: Basic {BASIC}
\\body {{"item": 7, "token": "{SECRETS[2]}"}}
\\get /status/500?api_key={SECRETS[3]}
\\status 500
"""


@pytest.fixture(scope="module")
def web() -> Iterator[Shop]:
    with shop() as running:
        yield running


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "visit.http"
    path.write_text(SCRIPT)
    return path


def found_in(text: bytes) -> set[str]:
    return {secret for secret in SECRETS if secret.encode() in text}


def written(folder: Path, *beginnings: str) -> bytes:
    return b"".join(
        path.read_bytes() for path in folder.iterdir() if path.name.startswith(beginnings)
    )


def outputs(pgdyno: Callable[..., Said], run: str) -> bytes:
    said = [pgdyno("show", run, f"--format={each}") for each in ("text", "json", "csv", "spec")]
    assert {each.status for each in said} == {0}
    return "".join(each.out + each.err for each in said).encode()


RUN = ("-c2", "-t5", "--report", "page.html")


def test_a_run_has_none_of_them(
    web: Shop, script: Path, pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    said = pgdyno("run", "--url", f"{web.url}/?token={SECRETS[3]}", "-f", script.name,
                  "-D", f"token={SECRETS[2]}", *RUN, "-o", "web.db")  # fmt: skip
    assert said.status in (0, 4), said.err
    assert found_in(written(tmp_path, "web.db", "page.html")) == set()
    assert found_in((said.out + said.err).encode()) == set()
    assert found_in(outputs(pgdyno, "web.db")) == set()
    with RunFile(tmp_path / "web.db") as run:
        (part,) = run.run.spec["workload"]["script"]
        assert "\\header Cookie: sid=[sha256:" in part["text"]
        assert "Basic ***" in part["text"]


def test_errors_have_none_of_them(web: Shop, pgdyno: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "bad.http").write_text(SCRIPT.replace("\\status 500\n", ""))
    said = pgdyno("run", "--url", web.url, "-f", "bad.http", "-c2", "-t5", "-o", "web.db")
    assert said.status == 2
    assert found_in(written(tmp_path, "web.db")) == set()
    assert found_in((said.out + said.err).encode()) == set()
    with RunFile(tmp_path / "web.db") as run:
        assert {row.sqlstate for row in run.errors()} == {"http-500"}


def test_urls_are_named_without_them(
    web: Shop, pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    url = f"{web.url}/shop?access_token={SECRETS[3]}"
    said = pgdyno("run", "--url", url, *RUN, "-o", "web.db", "--format=json")
    assert said.status == 0, said.err
    assert found_in(said.out.encode() + written(tmp_path, "web.db", "page.html")) == set()
    (statement,) = json.loads(said.out)["statements"]
    assert statement["script"].startswith("GET /shop?access_token=[sha256:")
    again = pgdyno("run", "web.db", "-t3", "-o", "again.db", "--format=json")
    assert again.status == 1
    assert json.loads(again.out)["error"]["code"] == "credentials-not-recorded"


def test_a_run_that_asks_for_them_has_all(
    web: Shop, script: Path, pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    said = pgdyno("run", "--url", web.url, "-f", script.name, *RUN, "-o", "web.db", "--credentials")
    assert said.status in (0, 4), said.err
    for name in ("web.db", "page.html"):
        assert found_in(written(tmp_path, name)) == set(SECRETS) - {PASSWORD}, name
    script.unlink()
    assert pgdyno("run", "web.db", "-t3", "-o", "again.db").status in (0, 4)


def test_a_run_is_repeated_with_the_file_and_not_without(
    web: Shop, script: Path, pgdyno: Callable[..., Said], tmp_path: Path
) -> None:
    pgdyno("run", "--url", web.url, "-f", script.name, "-c2", "-t5", "-o", "web.db")
    web.cookies.clear()
    assert pgdyno("run", "web.db", "-t3", "-o", "again.db").status in (0, 4)
    assert f"sid={SECRETS[1]}" in web.cookies
    script.unlink()
    refused = pgdyno("run", "web.db", "-t3", "-o", "third.db", "--format=json")
    assert refused.status == 1
    assert json.loads(refused.out)["error"]["code"] == "credentials-not-recorded"
    assert not (tmp_path / "third.db").exists()
    (tmp_path / "shown.toml").write_text(pgdyno("show", "web.db", "--format=spec").out)
    refused = pgdyno("run", "shown.toml", "-t3", "-o", "third.db", "--format=json")
    assert json.loads(refused.out)["error"]["code"] == "credentials-not-recorded"


def recording(url: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {SECRETS[0]}", "Cookie": f"sid={SECRETS[1]}",
               "X-Api-Key": SECRETS[3]}  # fmt: skip
    request = {
        "method": "POST",
        "url": f"{url}/shop?api_key={SECRETS[3]}",
        "headers": [{"name": name, "value": value} for name, value in headers.items()],
        "postData": {"mimeType": "application/json", "text": json.dumps({"token": SECRETS[2]})},
    }
    entry = {"startedDateTime": "2026-01-01T00:00:00Z", "time": 5, "request": request,
             "response": {"status": 200}}  # fmt: skip
    return {"log": {"version": "1.2", "entries": [entry]}}


@pytest.mark.parametrize("kept", [False, True])
def test_a_recording(web: Shop, pgdyno: Callable[..., Said], tmp_path: Path, *, kept: bool) -> None:
    (tmp_path / "site.har").write_text(json.dumps(recording(web.url)))
    web.cookies.clear()
    said = pgdyno("run", "site.har", "-c1", "-t2", "-o", "web.db", "--report", "page.html",
                  *(["--credentials"] if kept else []))  # fmt: skip
    assert said.status in (0, 4), said.err
    assert found_in(written(tmp_path, "web.db", "page.html")) == (
        set(SECRETS[:4]) if kept else set()
    )
    assert (f"sid={SECRETS[1]}" in web.cookies) == kept


def test_a_plan(web: Shop, pgdyno: Callable[..., Said], tmp_path: Path) -> None:
    header = "".join(
        f'<elementProp name="" elementType="Header"><stringProp name="Header.name">{name}'
        f'</stringProp><stringProp name="Header.value">{value}</stringProp></elementProp>'
        for name, value in {"Authorization": f"Basic {BASIC}", "X-Auth-Token": SECRETS[0]}.items()
    )
    manager = element(
        "HeaderManager",
        records=f'<collectionProp name="HeaderManager.headers">{header}</collectionProp>',
    )
    text = plan(request(f"/shop?token={SECRETS[3]}", manager)).replace("shop.example", "127.0.0.1")
    (tmp_path / "plan.jmx").write_text(text)
    said = pgdyno("run", "plan.jmx", "--url", web.url, "-o", "web.db", "--report", "page.html")
    assert said.status in (0, 4), said.err
    assert found_in(written(tmp_path, "web.db", "page.html")) == set()
    again = pgdyno("run", "web.db", "-t3", "-o", "again.db")
    assert again.status == 1
