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
from imported_files import TEXTS, lines_of, survives
from jmeter_plans import HEAD, collection, element, plan, request

from pgdyno.errors import UsageError
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


def pause(time: str, *below: str, action: str = "1") -> str:
    """A flow control action."""
    keys = {"ActionProcessor__action": action, "ActionProcessor__duration": time}
    return element("TestAction", *below, **keys)


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
    "a-name-of-pgdyno-in-a-header": (
        request(
            "/a",
            element(
                "HeaderManager",
                records='<collectionProp name="HeaderManager.headers"><elementProp name="">'
                '<stringProp name="Header.name">X</stringProp>'
                '<stringProp name="Header.value">a:txn</stringProp></elementProp></collectionProp>',
            ),
        ),
        ["\\get /a", "\\header X: a::{empty}txn"],
    ),
    "empty-times": (
        pause("", element("ConstantTimer", ConstantTimer__delay=""))
        + element("UniformRandomTimer", ConstantTimer__delay="", RandomTimer__range="")
        + request("/a"),
        ["\\get /a"],
    ),
    "think-time": (
        pause(
            "0",
            element(
                "UniformRandomTimer",
                ConstantTimer__delay="${__P(delay,1000)}",
                RandomTimer__range="100.0",
            ),
        )
        + request("/a"),
        ["\\set pause_ms random(1000, 1100)", "\\sleep :pause_ms ms", "\\get /a"],
    ),
    "pause-with-timers-in-scope": (
        element("ConstantTimer", ConstantTimer__delay="30") + pause("12") + request("/a"),
        ["\\sleep 42 ms", "\\sleep 30 ms", "\\get /a"],
    ),
    "times-that-change": (
        request(
            "/a",
            element("ConstantTimer", ConstantTimer__delay="${__Random(5,9)}"),
            element("ConstantTimer", ConstantTimer__delay="${__Random(1,2,late)}"),
            element("ConstantTimer", ConstantTimer__delay="${__Random(3,4)}"),
        ),
        [
            "\\set random random(5, 9)",
            "\\set late random(1, 2)",
            "\\set random_2 random(3, 4)",
            "\\set pause_ms :random + :late + :random_2",
            "\\sleep :pause_ms ms",
            "\\get /a",
        ],
    ),
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


def rate(a_minute: str, **keys: str) -> str:
    """A constant throughput timer."""
    value = f"<doubleProp><name>throughput</name><value>{a_minute}</value></doubleProp>"
    return element("ConstantThroughputTimer", records=value, **keys)


RATES: dict[str, tuple[str, float]] = {
    "below a pause": (pause("", rate("20.0")) + request("/a") + request("/b"), 2 * 20 / 60),
    "below a pause, of all threads": (pause("", rate("30", calcMode="2")) + request("/a"), 0.5),
    "below a request": (request("/a") + request("/b", rate("60")), 2.0),
    "of all, a pause too": (rate("60") + pause("5") + request("/a"), 1.0),
    "in a loop": (element("LoopController", pause("", rate("60")), LoopController__loops="4"), 0.5),
}


@pytest.mark.parametrize("case", RATES)
def test_a_rate_counts_what_it_holds_up(case: str, imported: Callable[..., Imported]) -> None:
    inside, rate_hz = RATES[case]
    (group,) = imported(plan(inside, request("/z") if "loop" in case else "")).fields["clients"]
    assert group["arrival"] == {"rate": pytest.approx(rate_hz, abs=1e-6), "process": "constant"}


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (element("OnceOnlyController", request("/a", rate("60"))), "not sent in each transaction"),
        (request("/a", rate("")), "a throughput of 0"),
        (request("/a", rate("60")) + request("/b", rate("6")), "a second timer"),
    ],
)
def test_a_rate_that_cannot_be_held_is_named(
    inside: str, why: str, imported: Callable[..., Imported]
) -> None:
    with pytest.raises(UsageError, match=why):
        imported(plan(inside))
    assert "arrival" not in imported(plan(inside), partial=True).fields["clients"][0]


@pytest.mark.parametrize("time", [" 250 ", "1.5", "5s", "x", "1e3"])
def test_a_time_that_jmeter_takes_for_0_is_0_and_said(
    time: str, imported: Callable[..., Imported]
) -> None:
    timer = element("ConstantTimer", ConstantTimer__delay=time)
    for inside in (pause(time) + request("/a"), timer + request("/a")):
        found = imported(plan(inside))
        assert lines_of(found) == ["\\get /a"]
        assert [each for each in found.notes if f'"{time}"' in each]


MISSING: dict[str, tuple[str, str]] = {
    "end-of-loop": (pause("", action="3"), "it ends threads or loops"),
    "below-a-pause": (pause("", element("JSR223Timer", name="t")), 'the JSR223Timer "t"'),
    "property": (pause("${__property(x)}"), "give the property with -D x=VALUE"),
    "number-with-blanks": (
        element("LoopController", request("/a"), LoopController__loops=" 2 "),
        "JMeter takes it for 0 because of the blanks",
    ),
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
        "log.entries[0].request: expected an object",
    ),
    "surrogate.har": (
        '{"log": {"entries": [{"startedDateTime": "2026-11-20T10:00:00Z",'
        ' "request": {"method": "GET", "url": "http://a.example/\\ud800"}}]}}',
        "log.entries[0].request.url: ",
    ),
    "nothing.har": (json.dumps({"log": {"entries": []}}), "there is no request to a web server"),
    "a.txt": ("", "is neither a JMeter test plan, nor a HAR file, nor a capture"),
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
