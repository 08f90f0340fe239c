"""Credentials of web requests are hidden in any text that has them, and nothing else is."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.credentials import MARK, hashed, is_credential
from pgdyno.record.plain import plain
from pgdyno.redact import blank, is_blanked

SECRET = "s3cr3t-Zebra"
BASIC = base64.b64encode(f"joe:{SECRET}".encode()).decode()
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqb2UifQ.c2lnbmF0dXJl"

TEXTS = [
    f"\\get /\n\\header Authorization: Bearer {SECRET}\n\\status 200",
    f"\\get /\n\\header authorization:Token {SECRET}",
    f"\\header Authorization: Bearer \\\n  {SECRET}\n",
    f"\\header Proxy-Authorization: Digest username=joe, response={SECRET}",
    f"\\header Cookie: theme=dark; sid={SECRET}; a=:a",
    f"Set-Cookie: sid={SECRET}; Path=/; HttpOnly",
    f"\\header X-Api-Key: {SECRET}",
    f"\\header X-Auth-Token: {SECRET}",
    f"\\header X-Amz-Security-Token:{SECRET}",
    f"\\header Ocp-Apim-Subscription-Key: {SECRET}",
    f"\\post /login\n\\body user=joe&token={SECRET}&x=1",
    f"\\body token={SECRET}",
    f"\\body access_token={SECRET}&x=1",
    f'\\body {{"n": 1, "apiKey": "{SECRET}"}}',
    f'\\body {{"client_secret" : "a \\" {SECRET}"}}',
    f"\\body <s:accessToken a='1'>{SECRET}</s:accessToken>",
    '\\body --b\n\\body Content-Disposition: form-data; name="token"\n\\body\n'
    f"\\body {SECRET}\n\\body --b--",
    f"GET /search?q=1&api_key={SECRET} HTTP/1.1",
    f"https://shop.example/?access_token={SECRET}#top",
    f"http://shop.example/?signature={SECRET}&x=1",
    f"/a?secret={SECRET}",
    f"/a;jsessionid={SECRET}?x=1",
    f"/a?x=1&session_id={SECRET}",
    f"http://{SECRET}@shop.example/",
    f"http://joe:{SECRET}@shop.example/",
    f"https://maps.example/?key={SECRET}-0123456789-abc",
    f"http://shop.example/?password={SECRET}",
    f"curl -H 'Authorization: Bearer {SECRET}' http://shop.example",
    f"the server answered Bearer {SECRET} with 401",
    f"token={SECRET}",
    f'authorization = "Bearer {SECRET}"',
    f'headers = {{ X-Api-Key = "{SECRET}" }}',
    f'{{"name": "Cookie", "value": "sid={SECRET}"}}',
    f"{{'x-api-key': '{SECRET}'}}",
    f'{{\\"token\\": \\"{SECRET}\\"}}',
]
AS_THEY_ARE = [
    '\\contains "cookie": "sid=7"\n\\matches "body": "token=a%26b&x"\n\\lacks token=1&',
    "\\header Authorization: Bearer :token",
    "\\header Cookie: sid=:{sid}",
    "\\body csrf=:csrf&item=:id",
    '\\extract token body name="csrf" value="([^"]*)"',
    "\\header X-Requested-With: XMLHttpRequest",
    "\\header Accept: text/html",
    "\\body key=5&tokens=7&item=9",
    "GET /authors?key=name&sort=asc",
    "select token from sessions where session_id = $1 and token = :token",
    "update sessions set token = excluded.token, secret=md5(other.secret)",
    "basic authentication is not supported by this bearer authentication",
    "password authentication failed for user joe",
    "wait for the signature: see https://host:5432/docs",
    "the token bucket holds 5 tokens; the key is id",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_credential_is_hidden(text: str) -> None:
    shown = blank(text)
    assert SECRET not in shown
    assert re.search(MARK, shown) or "***" in shown
    assert blank(shown) == shown
    assert is_blanked(shown)
    assert not is_blanked(text)


@pytest.mark.parametrize("text", AS_THEY_ARE)
def test_what_is_no_credential_stays(text: str) -> None:
    assert blank(text) == text
    assert not is_blanked(text)


@pytest.mark.parametrize("text", [f"\\header Authorization: Basic {BASIC}", f"Basic {BASIC}\n"])
def test_a_password_has_no_hash(text: str) -> None:
    assert blank(text).strip() == text.strip().replace(BASIC, "***")


def test_a_token_is_known_by_its_form() -> None:
    assert JWT not in blank(f"the server refused {JWT}, which is too old")


def test_the_same_credential_is_hidden_alike_and_others_are_not() -> None:
    header, url = blank(f"\\header X-Api-Key: {SECRET}"), blank(f"/a?api_key={SECRET}")
    assert hashed(SECRET) in header
    assert hashed(SECRET) in url
    assert hashed(SECRET) != hashed(SECRET + "x")


def test_variables_of_a_spec_are_hidden_by_their_names() -> None:
    recorded = plain({"workload": {"variables": {"token": SECRET, "batch": 7}}})
    assert recorded == {"workload": {"variables": {"token": hashed(SECRET), "batch": 7}}}
    assert plain({"signature": "hot-row", "token": "x"}) == {"signature": "hot-row", "token": "x"}


def test_what_a_script_sends_is_hidden_where_it_is_expected_too() -> None:
    sent = f"\\get /\n\\header X-Api-Key: {SECRET}\n"
    shown = blank(f'{sent}\\contains "key": "{SECRET}"\n\\lacks "token": "none"\n')
    assert shown.count(hashed(SECRET)) == 2
    assert SECRET not in shown
    assert shown.endswith('\n\\lacks "token": "none"\n')


@given(st.text(max_size=60), st.sampled_from(["token", "Cookie", "x-api-key", "Authorization"]))
def test_hidden_once_is_hidden_for_good(value: str, name: str) -> None:
    for text in (f"\\header {name}: {value}", f"?{name}={value}", f'"{name}": "{value}"'):
        assert blank(blank(text)) == blank(text)


@pytest.mark.parametrize(
    ("name", "secret"),
    [("X-Api-Key", True), ("accessToken", True), ("X-CSRF-Token", True), ("Accept", False),
     ("tokens", False), ("X-Key-Count", False)],
)  # fmt: skip
def test_names(name: str, secret: bool) -> None:
    assert is_credential(name) == secret


@pytest.mark.parametrize(
    "text",
    [
        'name="token"\n' + "a:b:c:d:e\n" * 500,
        '"token": "' + "\\\\" * 5000,
        "token = '" + "\\x" * 5000,
        "\\header token: " + "\\" * 5000,
        "?token=" + ":a" * 5000 + "-",
        "'" * 3000 + "token" * 3000,
        "a-token" * 3000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """A search that goes back would not end within the time limit of a test."""
    assert blank(blank(text)) == blank(text)
