"""JMeter plans and recordings as scripts: what each element becomes, and that nothing is dropped
in silence, whatever the file is like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jmeter_plans import HEAD, collection, element, plan, request

from pgdyno.errors import PgdynoError, UsageError
from pgdyno.imports import Choices, Imported, fields_with_texts, read_foreign
from pgdyno.spec import spec_from_fields
from pgdyno.workload import load_workloads

EXAMPLES = Path(__file__).parents[1] / "cli" / "imports"


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Imported]:
    """Import a plan, or a recording."""

    def read(content: str | bytes, name: str = "a.jmx", **chosen: Any) -> Imported:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        found = read_foreign(path, Choices(**chosen))
        load_workloads(spec_from_fields(fields_with_texts(found)))
        return found

    return read


def lines_of(found: Imported) -> list[str]:
    (text,) = found.scripts.values()
    return [line for line in text.splitlines() if line and not line.startswith("-- ")]


ELEMENTS: dict[str, tuple[str, list[str]]] = {
    "constant": (
        request("/a", element("ConstantTimer", ConstantTimer__delay="1500")),
        ["\\sleep 1500 ms", "\\get /a"],
    ),
    "uniform": (
        element("UniformRandomTimer", ConstantTimer__delay="10", RandomTimer__range="5.0")
        + request("/a"),
        ["\\set pause_ms random(10, 15)", "\\sleep :pause_ms ms", "\\get /a"],
    ),
    "gaussian-and-constant": (
        element("GaussianRandomTimer", ConstantTimer__delay="100", RandomTimer__range="10")
        + element("ConstantTimer", ConstantTimer__delay="7")
        + request("/a"),
        [
            "\\set pause_ms 7 + abs(random_gaussian(60, 140, 4.0))",
            "\\sleep :pause_ms ms",
            "\\get /a",
        ],
    ),
    "once": (
        element("OnceOnlyController", request("/a")) + request("/b"),
        ["\\if :txn = 0", "\\get /a", "\\endif", "\\get /b"],
    ),
    "percent": (
        element(
            "ThroughputController",
            request("/a"),
            ThroughputController__style="1",
            records="<FloatProperty><name>ThroughputController.percentThroughput</name>"
            "<value>12.5</value><savedValue>0.0</savedValue></FloatProperty>",
        ),
        ["\\set percent random(1, 10000)", "\\if :percent <= 1250", "\\get /a", "\\endif"],
    ),
    "random": (
        element("RandomController", request("/a"), request("/b")),
        [
            "\\set choice random(1, 2)",
            "\\if :choice = 1",
            "\\get /a",
            "\\elif :choice = 2",
            "\\get /b",
            "\\endif",
        ],
    ),
    "groups-at-random": (
        element(
            "RandomController",
            element("GenericController", request("/a"), request("/b")),
            InterleaveControl__style="1",
        ),
        ["\\set choice random(1, 1)", "\\if :choice = 1", "\\get /a", "\\get /b", "\\endif"],
    ),
    "in-turn": (
        element("InterleaveControl", request("/a"), request("/b")),
        [
            "\\set turn mod(:txn, 2) + 1",
            "\\if :turn = 1",
            "\\get /a",
            "\\elif :turn = 2",
            "\\get /b",
            "\\endif",
        ],
    ),
    "pause": (
        element("TestAction", ActionProcessor__action="1", ActionProcessor__duration="250")
        + request("/a"),
        ["\\sleep 250 ms", "\\get /a"],
    ),
    "loop": (
        element("LoopController", request("/a"), LoopController__loops="2"),
        ["\\get /a", "\\get /a"],
    ),
    "counter": (
        element(
            "CounterConfig",
            CounterConfig__name="n",
            CounterConfig__start="5",
            CounterConfig__end="9",
            CounterConfig__incr="2",
            CounterConfig__per_user="true",
        )
        + request("/a?n=${n}"),
        ["\\set n 5 + mod(:txn, 3) * 2", "\\get /a?n=:n"],
    ),
    "random-variable": (
        element("RandomVariableConfig", variableName="r", minimumValue="2", maximumValue="4")
        + request("/a/${r}"),
        ["\\set r random(2, 4)", "\\get /a/:r"],
    ),
    "functions": (
        request("/${__UUID()}/${__threadNum}x${__RandomString(5,abc,word)}/${word}"),
        [
            "\\set uuid random_uuid()",
            "\\set threadnum :client_id + 1",
            "\\set word random_text(5)",
            "\\get /:uuid/:{threadnum}x:word/:word",
        ],
    ),
    "new-visitor": (
        element("CookieManager", CookieManager__clearEachIteration="true") + request("/a"),
        ["\\forget", "\\get /a"],
    ),
    "statuses": (
        request(
            "/a",
            element(
                "ResponseAssertion",
                Assertion__test_field="Assertion.response_code",
                Assertion__test_type="1",
                records=collection("Asserion.test_strings", "2\\d\\d|404", "3.."),
            ),
        ),
        ["\\get /a", "\\status 2xx 404 3xx"],
    ),
    "any-of": (
        request(
            "/a",
            element(
                "ResponseAssertion",
                Assertion__test_field="Assertion.response_data",
                Assertion__test_type="48",
                Assertion__assume_success="true",
                records=collection("Asserion.test_strings", "a.b", "c"),
            ),
        ),
        ["\\get /a", "\\status 1xx 2xx 3xx 4xx 5xx", "\\matches (?:a\\.b)|(?:c)"],
    ),
    "equals": (
        request(
            "/a",
            element(
                "ResponseAssertion",
                Assertion__test_field="Assertion.response_data",
                Assertion__test_type="8",
                records=collection("Asserion.test_strings", "[ok]"),
            ),
        ),
        ["\\get /a", "\\matches (?s)\\A(?:\\[ok\\])\\z"],
    ),
    "header-and-status": (
        request(
            "/a",
            element(
                "RegexExtractor",
                RegexExtractor__refname="where",
                RegexExtractor__regex="Location: (.+)",
                RegexExtractor__useHeaders="true",
            ),
        )
        + request("${where}"),
        ["\\get /a", "\\extract where header Location", "\\get :where"],
    ),
    "a-name-of-pgdyno": (request("/a:scale"), ["\\get /a%3Ascale"]),
}


@pytest.mark.parametrize("case", ELEMENTS)
def test_each_element_has_its_words(case: str, imported: Callable[..., Imported]) -> None:
    inside, wanted = ELEMENTS[case]
    found = imported(plan(inside))
    assert lines_of(found) == wanted
    assert not found.missing


def test_groups_rates_and_durations_are_the_specs(imported: Callable[..., Imported]) -> None:
    rate = '<doubleProp><name>throughput</name><value>120.0</value></doubleProp>'  # fmt: skip
    timer = element("ConstantThroughputTimer", records=rate, calcMode="0")
    group = {
        "ThreadGroup__ramp_time": "2",
        "ThreadGroup__scheduler": "true",
        "ThreadGroup__duration": "60",
    }
    text = plan(timer, request("/a"), request("/b"), loops="-1", threads="10", **group)
    fields = imported(text).fields
    assert fields["load"] == {"ramp": "2000ms", "hold": "58000ms"}
    # 2 a second of each of 10 threads, and 2 requests in a transaction.
    assert fields["clients"][0]["arrival"] == {"rate": 10.0, "process": "constant"}
    assert fields["http"] == {"url": "http://shop.example/", "cookies": False}
    assert imported(plan(request("/a"))).fields["load"] == {"transactions": 3, "hold": "1d"}


MISSING: dict[str, tuple[str, str]] = {
    "one-at-a-time": (
        element("InterleaveControl", element("GenericController", request("/a"), request("/b"))),
        "it takes the requests of a controller one at a time",
    ),
    "script": (element("JSR223Sampler", name="sum"), 'the JSR223Sampler "sum" is not supported'),
    "plugin": (element("kg.apc.Sampler", name="p"), 'the kg.apc.Sampler "p" is not supported'),
    "below": (request("/a", element("BeanShellPreProcessor", name="b")), "the BeanShellPreProc"),
    "while": (element("WhileController", request("/a")), "the WhileController"),
    "unset": (request("/${nobody}"), "${nobody}: nothing in the plan sets it"),
    "function": (request("/${__groovy(1+1)}"), "the function ${__groovy(1+1)}"),
    "method": (request("/a", method="TRACE"), "the method TRACE"),
    "files": (request("/a", HTTPSampler__DO_MULTIPART_POST="true"), "an upload of files"),
    "resources": (request("/a", HTTPSampler__image_parser="true"), "the resources that a page"),
    "look-ahead": (
        request(
            "/a",
            element("RegexExtractor", RegexExtractor__refname="t", RegexExtractor__regex="a(?=b)"),
        ),
        "it looks ahead or behind",
    ),
    "json-path": (
        request(
            "/a",
            element(
                "JSONPostProcessor",
                JSONPostProcessor__referenceNames="t",
                JSONPostProcessor__jsonPathExprs="$..id",
            ),
        ),
        "the JSON path $..id",
    ),
    "last-line": (
        element("CSVDataSet", filename="x.csv", variableNames="a", recycle="false"),
        "not read again",
    ),
    "no-file": (
        element("CSVDataSet", filename="none.csv", variableNames="a"),
        "none.csv cannot be read: No such file",
    ),
    "counter": (request("/${__counter(FALSE,)}"), "which all threads share"),
    "a-name-of-pgdyno": (
        request(
            "/a",
            element(
                "HeaderManager",
                records='<collectionProp name="HeaderManager.headers"><elementProp name="">'
                '<stringProp name="Header.name">X</stringProp>'
                '<stringProp name="Header.value">a:txn</stringProp></elementProp></collectionProp>',
            ),
        ),
        "the text :txn",
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_nothing_is_dropped_in_silence(case: str, imported: Callable[..., Imported]) -> None:
    inside, why = MISSING[case]
    with pytest.raises(UsageError) as refused:
        imported(plan(inside, request("/z")))
    assert why in refused.value.message
    assert re.match(r".*/a\.jmx:\d+: ", refused.value.message)
    assert "--partial" in (refused.value.hint or "")
    found = imported(plan(inside, request("/z")), partial=True)
    assert any(why in each for each in found.missing)
    assert why in next(iter(found.scripts.values()))
    assert lines_of(found)[-1] == "\\get /z"


def test_all_that_is_missing_is_named_at_once(imported: Callable[..., Imported]) -> None:
    inside = [element("JSR223Sampler", name=f"number {number}") for number in range(12)]
    with pytest.raises(UsageError) as refused:
        imported(plan(*inside, request("/z")))
    assert refused.value.message.count("JSR223Sampler") == 8
    assert refused.value.message.endswith("and 4 more")


LAUGHS = "".join(f'<!ENTITY l{n} "&l{n - 1};&l{n - 1};">' for n in range(1, 60))
BAD: dict[str, tuple[str | bytes, str]] = {
    "entities.jmx": (
        f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><a>&l59;</a>',
        ":1: a document type",
    ),
    "outside.jmx": (
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<a>&x;</a>',
        ":1: a document type",
    ),
    "cut.jmx": (HEAD + "<hashTree>", ":3: not valid XML: no element found"),
    "empty.jmx": ("", ":1: not valid XML: no element found"),
    "other.jmx": ("<html/>", ":1: this is no JMeter test plan: it begins with <html>"),
    "no-plan.jmx": (HEAD + "<hashTree/></jmeterTestPlan>", "there is no TestPlan in it"),
    "deep.jmx": ("<a>" * 5000 + "</a>" * 5000, ":1: more than 200 elements within each other"),
    "encoding.jmx": (b'<?xml version="1.0" encoding="klingon"?><a/>', ":1: not valid XML"),
    "zero.jmx": (b"<a>\0</a>", ":1: not valid XML"),
    "cut.har": ('{"log": {\n"entries": [', ":2: not valid JSON"),
    "empty.har": ("", ":1: not valid JSON"),
    "deep.har": ("[" * 200_000, "nested too deeply"),
    "number.har": ("9" * 5000, "a number too long"),
    "bytes.har": (b"\xff\xfe{", "not UTF-8 text"),
    "list.har": ("[]", "the document: expected an object"),
    "log.har": ('{"log": {"entries": 5}}', "log.entries: expected an array"),
    "keys.har": (
        '{"log": {"entries": [{"startedDateTime": "2026-11-20T10:00:00Z", "request": {}}]}}',
        "log.entries[0].request.method: is missing; log.entries[0].request.url: is missing",
    ),
    "shape.har": (
        json.dumps({"log": {"entries": [{"startedDateTime": "yesterday", "request": 5}]}}),
        "log.entries[0].startedDateTime: ",
    ),
    "surrogate.har": (
        '{"log": {"entries": [{"startedDateTime": "2026-11-20T10:00:00Z",'
        ' "request": {"method": "GET", "url": "http://a.example/\\ud800"}}]}}',
        "log.entries[0].request.url: ",
    ),
    "nothing.har": (json.dumps({"log": {"entries": []}}), "there is no request to a web server"),
    "a.txt": ("", "is neither a JMeter test plan nor a HAR file"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_plan_or_recording_is_refused(
    name: str, imported: Callable[..., Imported]
) -> None:
    content, why = BAD[name]
    with pytest.raises(UsageError) as refused:
        imported(content, name)
    assert why in refused.value.message
    assert len(refused.value.message) < 600


def entry(url: str, **request_keys: Any) -> dict[str, Any]:
    return {
        "startedDateTime": "2026-11-20T10:00:00Z",
        "request": {"method": "GET", "url": url, **request_keys},
        "response": {"status": 200},
    }


def recording(*entries: dict[str, Any]) -> str:
    return json.dumps({"log": {"entries": entries}})


def test_credentials_and_pauses_are_as_asked(imported: Callable[..., Imported]) -> None:
    headers = [{"name": "Cookie", "value": "a=b"}, {"name": "TE", "value": "trailers"}]
    pages = [
        entry("http://a.example/1", headers=headers) | {"pageref": "p1"},
        entry("http://a.example/2")
        | {"pageref": "p2", "startedDateTime": "2026-11-20T10:00:02.5Z"},
    ]
    text = recording(*pages)
    assert lines_of(imported(text, "a.har")) == ["\\get /1", "\\sleep 2500 ms", "\\get /2"]
    kept = imported(text, "a.har", credentials=True, pauses=False)
    assert lines_of(kept) == ["\\get /1", "\\header Cookie: a=b", "\\get /2"]


@pytest.mark.parametrize(
    ("posted", "why"),
    [
        ({"mimeType": "multipart/form-data; boundary=x", "text": "--x"}, "several parts"),
        ({"mimeType": "image/png", "text": "iVBO", "encoding": "base64"}, "in base64"),
        ({"mimeType": "text/plain", "text": "a\n\nb"}, "empty or indented lines"),
        ({"mimeType": "text/plain", "text": "a\0b"}, "control characters"),
        ({"mimeType": "text/plain", "text": '{"a":scale}'}, "the text :scale"),
    ],
)
def test_bodies_that_scripts_cannot_say_are_named(
    posted: dict[str, str], why: str, imported: Callable[..., Imported]
) -> None:
    keys = {"method": "POST", "postData": posted}
    text = recording(entry("http://a.example/1", **keys), entry("http://a.example/2"))
    with pytest.raises(UsageError) as refused:
        imported(text, "a.har")
    assert f"log.entries[0], POST /1: a body {why}".split(": ")[0] in refused.value.message
    assert why in refused.value.message
    assert lines_of(imported(text, "a.har", partial=True)) == ["\\get /2"]


def survives(content: bytes, kind: str, directory: Path) -> None:
    """Read any file: the end is a spec whose scripts are right, or one error."""
    path = directory / f"any{kind}"
    path.write_bytes(content)
    for partial in (False, True):
        try:
            found = read_foreign(path, Choices(partial=partial, origin=None))
            spec_from_fields(fields_with_texts(found))
        except PgdynoError as problem:
            assert problem.message
            assert problem.exit_status == 1


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("imports")
    (directory / "users.csv").write_text("login;shoe\nann;5\n")
    return directory


FILES = {path.name: path.read_bytes() for path in EXAMPLES.iterdir() if path.suffix != ".csv"}


@given(data=st.data())
def test_files_with_a_part_changed_end_well(place: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FILES)))
    content = FILES[name]
    start = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, 60))
    inserted = data.draw(
        st.binary(max_size=12)
        | st.sampled_from([b"${", b"}", b"<a>", b"</hashTree>", b"null", b"[[", b"-1", b"\\", b":"])
    )
    survives(content[:start] + inserted + content[start + length :], Path(name).suffix, place)


WORDS = st.sampled_from(
    [
        "${",
        "${x}",
        "${__Random(1,",
        "${__P(a,${__P(b)})}",
        "}",
        "\\",
        ",",
        ":txn",
        "a",
        " ",
        "/",
        "http://",
        "é",
        "\n",
        "'",
        '"',
        "%",
        "1",
        "-1",
        "$..",
        "(?=",
        "[",
        "{",
    ]
)
TEXTS = st.lists(WORDS, max_size=6).map("".join)


@given(path=TEXTS, name=TEXTS, pattern=TEXTS, loops=TEXTS, wanted=TEXTS)
def test_plans_with_any_texts_end_well(
    place: Path, path: str, name: str, pattern: str, loops: str, wanted: str
) -> None:
    below = [
        element("RegexExtractor", RegexExtractor__refname=name, RegexExtractor__regex=pattern),
        element(
            "ResponseAssertion",
            Assertion__test_field="Assertion.response_data",
            Assertion__test_type="2",
            records=collection("Asserion.test_strings", wanted),
        ),
    ]
    text = plan(request(path, *below), request("/z/${x}"), loops=loops)
    survives(text.encode(), ".jmx", place)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(
    url=TEXTS.map(lambda text: f"http://a.example/{text}"),
    headers=VALUES | st.lists(st.fixed_dictionaries({"name": TEXTS, "value": TEXTS}), max_size=3),
    posted=VALUES | st.fixed_dictionaries({"mimeType": TEXTS, "text": TEXTS, "params": VALUES}),
    response=VALUES | st.fixed_dictionaries({"status": st.integers(-1, 700)}),
)
def test_recordings_of_any_shape_end_well(
    place: Path, url: str, headers: Any, posted: Any, response: Any
) -> None:
    keys = {"method": "POST", "headers": headers, "postData": posted}
    text = recording(entry(url, **keys) | {"response": response}, entry("http://a.example/z"))
    survives(text.encode(), ".har", place)
