"""The page's sections about what was found and tried: steps, findings, price list, zoom buttons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.diagnose.course import Course
from pgdyno.dimension import title_of
from pgdyno.record import FindingRow, RunFile
from pgdyno.remedy import Assessment, assess, catalogue
from pgdyno.report.charts.event_marks import tells_of_missing_probe
from pgdyno.report.page._parts import Banner, Card, Headline, StepText, Tag, Zoom
from pgdyno.report.summary import NOT_MEASURED, Attempt, RunSummary, Step, in_force
from pgdyno.report.words import numbers, sentences
from pgdyno.report.words.course import change_sentences, drop_sentences
from pgdyno.report.words.sentences import decision_words, expectation, finding_name
from pgdyno.report.words.tables import Table
from pgdyno.spec.change import Change

TONES = {
    "kept": "good",
    "still earns": "good",
    "better": "good",
    "offered": "warn",
    "inconclusive": "warn",
    "not comparable": "bad",
    "taken back": "bad",
    "worse": "bad",
}
ENDINGS = {
    "failed": "The run failed.",
    "interrupted": "The run was interrupted.",
    "running": "The run is still going on.",
}
INCIDENTS_MAX = 8
STATUS_TONES = {"proved": "good", "found": "warn", "refuted": "plain"}


def headline(run: RunFile, story: RunSummary) -> list[Headline]:
    """The large figures: throughput, p99, time taken, trust."""
    before, after = story.before, story.after
    figures = []
    if before is not None and after is not None:
        changed = story.changed
        figures = [
            Headline(
                "Throughput",
                numbers.tps(after.throughput_tps),
                "tps",
                numbers.tps(before.throughput_tps) if changed else "",
                story.gain_words if changed else _interval_note(run, story),
            ),
            Headline(
                "Response time p99",
                *(_value_and_unit(after.latency_p99_ms)),
                _value_and_unit(before.latency_p99_ms)[0] if changed else "",
                story.p99_gain_words if changed else _median_note(run, story),
            ),
        ]
    figures += _failed(run, story)
    if taken := sentences.time_taken(run.run):
        figures.append(Headline("Time taken", taken, note=sentences.started_at(run.run)))
    return [*figures, _trust(story)]


def _trust(story: RunSummary) -> Headline:
    label = "To be trusted"
    if story.distrust:
        return Headline(label, "no", note="see below")
    if story.info.status != "done":
        return Headline(label, "in part", note="the run did not come to its planned end")
    why = "the ledger adds up and the load generator was not the limit"
    return Headline(label, "yes", note=why)


def _value_and_unit(value_ms: float) -> tuple[str, str]:
    value, _, unit = numbers.ms(value_ms).partition(" ")
    return value, unit


def _interval_note(run: RunFile, story: RunSummary) -> str:
    """What is known of a run's mean besides: its interval and the time that it is of."""
    if run.run.command != "run":
        return "as it was, without a change"
    return sentences.throughput_words(run, story).partition(" tps ")[2]


def _median_note(run: RunFile, story: RunSummary) -> str:
    ids = story.before.slice_ids if story.before else None
    response = run.histogram("response", ids)
    if not response.count:
        return ""
    return f"p50 {numbers.ns(response.percentile(50))}, p95 {numbers.ns(response.percentile(95))}"


def _failed(run: RunFile, story: RunSummary) -> list[Headline]:
    """Of a single run, how many transactions failed."""
    if run.run.command != "run" or story.before is None:
        return []
    ledger = run.ledger(story.before.slice_ids)
    ended = ledger.done + ledger.failed
    share = f" ({numbers.percent(ledger.failed / ended)})" if ledger.failed and ended else ""
    note = f"of {numbers.count(ended)} transactions{share}"
    return [Headline("Failed", numbers.count(ledger.failed), note=note)]


def banners(run: RunFile, story: RunSummary) -> list[Banner]:
    """What a reader must know before relying on the rest."""
    found = []
    if story.distrust:
        reasons = numbers.sentence("; ".join(story.distrust))
        found.append(Banner("These numbers cannot be trusted.", reasons, bad=True))
    if story.incidents:
        told = [f"at {numbers.clock(i.at_ms)} {i.sentence}" for i in story.incidents]
        shown = told[:INCIDENTS_MAX]
        more = [f"and {len(told) - len(shown)} more"] if len(told) > len(shown) else []
        text = numbers.sentence("; ".join([*shown, *more]))
        found.append(Banner("Something happened to the server.", text, bad=True))
    return [*found, *circumstances(story)]


def circumstances(story: RunSummary) -> list[Banner]:
    """How the run ended, if not as planned, and the disk, if not the machine's own."""
    found, info = _chapter_banners(story.info.result), story.info
    if info.status in ENDINGS:
        detail = numbers.sentence(info.status_detail)
        text = f"{detail} What was recorded until then is shown.".strip()
        found.append(Banner(ENDINGS[info.status], text, bad=info.status == "failed"))
    if disk := story.emulated:
        text = f"Measured with {disk}: these are not the speeds of a real disk."
        found.append(Banner("Emulated disk.", text))
    return found


def _chapter_banners(result: Mapping[str, Any]) -> list[Banner]:
    """Which chapter of a story it is, how it was to end, and where luck had a part."""
    chapter = result.get("chapter")
    if not chapter:
        return []
    said = expectation(chapter)
    expected = f" Expected: {said}." if said else ""
    head = f"Chapter {chapter['number']}: {numbers.sentence(chapter['title'])}"
    return [
        Banner(head, f"{chapter['remark']}{expected}", bad=chapter["as_expected"] is False),
        *(Banner("Luck had a part.", f"{luck}.") for luck in chapter["luck"]),
    ]


def step_texts(story: RunSummary) -> list[StepText]:
    """The chain, one text for each finding that something was tried for."""
    return [
        StepText(
            number=step.number,
            title=numbers.capital(finding_name(step.finding)) or "Further changes",
            sentence=step.sentence,
            table=_attempts_table(step, story),
        )
        for step in story.steps
    ]


def _attempts_table(step: Step, story: RunSummary) -> Table:
    rows = [
        [
            a.title,
            a.durability_class,
            sentences.predicted_words(a) or numbers.ABSENT,
            sentences.measured_words(a) or numbers.ABSENT,
            numbers.change_percent(a.latency_p99.ratio if a.latency_p99 else None),
            numbers.count(a.trial.pairs),
            _decision_and_price(a, story),
        ]
        for a in step.attempts
    ]
    head = ["Change", "Class", "predicted", "measured, 95 %", "p99", "pairs", "Decision"]
    return Table("What was tried", head, rows, right=frozenset((2, 3, 4, 5)))


def _decision_and_price(attempt: Attempt, story: RunSummary) -> str:
    """What became of a change, with what drills took under it where it is worth having."""
    decided = decision_words(attempt)
    price = sentences.price_words(attempt, story)
    worth = attempt.outcome in ("kept", "offered", "still earns")
    return f"{decided}; {price}" if worth and price else decided


def closing(story: RunSummary) -> list[str]:
    """After the chain: what was taken back in turn, and what the next limit is."""
    said = (sentences.rechecks_sentence(story), sentences.next_limit_sentence(story))
    return [numbers.sentence(text) for text in said if text]


def finding_cards(story: RunSummary) -> list[Card]:
    """What was found, the limits first, step by step."""
    found = [f for f in story.findings if f.status not in ("cleared", "skipped")]
    several = len({finding.step for finding in story.findings}) > 1
    return [_finding_card(story, f, _when(story, f.step) if several else "") for f in found]


def _when(story: RunSummary, step: int) -> str:
    """What was in force when a diagnosis was made."""
    kept = [a for a in story.attempts if a.trial.decision == "kept" and a.trial.step <= step]
    return f"after {kept[-1].title}" if kept and step else "at the start"


def _finding_card(story: RunSummary, finding: FindingRow, when: str) -> Card:
    tags = [Tag(finding.status, STATUS_TONES.get(finding.status, "plain"))]
    if finding.rank == 1:
        tags.append(Tag("the limit", "warn"))
    if when:
        tags.append(Tag(when))
    causes = numbers.listed([finding_name(str(cause)) for cause in finding.causes])
    confidence = finding.confidence
    terms = [
        ("Confidence", "" if confidence is None else numbers.percent(confidence)),
        ("Symptom of", causes),
        ("Wrong if", numbers.sentence(finding.false_positives)),
        ("Might help", numbers.sentence("; ".join(sentences.proposals(finding, story)))),
    ]
    return Card(
        title=numbers.capital(finding_name(finding.finding)),
        tags=tags,
        terms=[(term, text) for term, text in terms if text],
        sentence=numbers.sentence(finding.sentence),
        evidence=_evidence(finding),
    )


def _evidence(finding: FindingRow) -> Table | None:
    if not finding.evidence:
        return None
    rows = []
    for item in finding.evidence:
        window = item.get("window_ms")
        when = f"{numbers.clock(window[0])} to {numbers.clock(window[1])}" if window else ""
        measured = numbers.measured(item.get("value"), item.get("unit") or "")
        rows.append([str(item.get("name", "")), measured, item.get("threshold") or "", when])
    head = ["Evidence", "measured", "held against", "when"]
    caption, windows = f"Evidence for the {finding_name(finding.finding)}", {r[3] for r in rows}
    if len(windows) == 1:  # one window is said once
        head, rows = head[:3], [row[:3] for row in rows]
        caption += f", {windows.pop()}".rstrip(", ")
    return Table(caption, head, rows, right=frozenset((1,)))


def verdict_table(findings: Sequence[FindingRow], status: str) -> Table | None:
    """What was cleared, or skipped: each signature once, as the last diagnosis saw it."""
    last = {f.finding: f for f in findings}
    chosen = [f for f in last.values() if f.status == status]
    if not chosen:
        return None
    captions = {
        "cleared": "Checked and cleared: not what holds this load back",
        "skipped": "Skipped: not checked, so not cleared either",
    }
    head = ["Checked", "Why it is cleared" if status == "cleared" else "Why it was skipped"]
    rows = [
        [numbers.capital(finding_name(f.finding)), numbers.sentence(f.sentence)] for f in chosen
    ]
    return Table(captions[status], head, rows)


def price_cards(story: RunSummary) -> list[Card]:
    """One card for each change that was measured, or if none was, for each that was proposed."""
    if not story.attempts:
        return [card for finding in story.limits for card in _proposal_cards(finding, story)]
    order = {"kept": 0, "better": 0, "offered": 1, "inconclusive": 2, NOT_MEASURED: 4}
    attempts = sorted(story.attempts, key=lambda a: order.get(a.outcome, 3))
    return [_price_card(attempt, story) for attempt in attempts]


def _price_card(attempt: Attempt, story: RunSummary) -> Card:
    p99 = attempt.latency_p99
    terms = [
        ("Throughput", _gain(attempt, story.noise_half_width)),
        ("p99", f"{numbers.change_percent(p99.ratio)} ({p99})" if p99 else ""),
        ("Tried", sentences.set_by_words(attempt)),
        ("Durability", numbers.sentence(sentences.class_words(attempt, story))),
    ]
    return Card(
        title=attempt.title,
        tags=[Tag(attempt.outcome, TONES.get(attempt.outcome, "plain")), *_price_tags(attempt)],
        terms=[(t, text) for t, text in [*terms, *_price_terms(attempt.assessment)] if text],
        lines=attempt.assessment.lines_to_apply(),
        undo=attempt.assessment.lines_to_undo(story.before_all),
    )


def _price_tags(attempt: Attempt) -> list[Tag]:
    tags = []
    if attempt.durability_class:
        tags.append(Tag(attempt.durability_class, "plain" if attempt.loses_nothing else "warn"))
    return tags + _need_tags(attempt.assessment)


def _need_tags(assessment: Assessment) -> list[Tag]:
    return [Tag({"client": "client side"}.get(need, need)) for need in assessment.needs]


def _price_terms(assessment: Assessment) -> list[tuple[str, str]]:
    """What a change costs, as the catalogue has it."""
    needs = "; ".join(sentences.NEED_MEANING[need] for need in assessment.needs)
    return [
        ("Bound", numbers.sentence(sentences.bound_words(assessment))),
        ("Costs", numbers.sentence(assessment.price)),
        ("Applied", numbers.sentence(needs)),
        ("Shows", "Over whole checkpoint cycles only." if assessment.checkpoint_bound else ""),
        (
            "Acts on",
            "" if assessment.acts_on_existing_rows else "Rows that are written from then on.",
        ),
    ]


def _proposal_cards(finding: FindingRow, story: RunSummary) -> list[Card]:
    """What a finding proposes, none of it measured."""
    cards = []
    for row in finding.remedies:
        remedy = catalogue().get(str(row.get("remedy_id")))
        if remedy is None:
            continue
        change = Change.from_json(row.get("change") or {})
        assessment = assess(change, in_force(story.info))
        name = assessment.durability_class
        load = sentences.full_load(story.info)
        promise = sentences.prediction(remedy, row.get("predicted_ratio"), load)
        terms = [
            ("Promises" if remedy.guards else "Throughput", f"{promise}; not measured"),
            ("Because", numbers.sentence(str(row.get("why") or ""))),
            ("Durability", f"{name}: {sentences.CLASS_MEANING[name]}."),
            *_price_terms(assessment),
        ]
        cards.append(
            Card(
                title=title_of(change),
                tags=[Tag("predicted"), Tag(name, "plain" if name == "D0" else "warn"),
                      *_need_tags(assessment)],
                terms=[(term, text) for term, text in terms if text],
                lines=assessment.lines_to_apply(),
                undo=assessment.lines_to_undo(story.before_all),
            )
        )  # fmt: skip
    return cards


def _gain(attempt: Attempt, noise: float | None) -> str:
    effect = attempt.throughput
    if effect is None:
        return decision_words(attempt) if attempt.outcome == NOT_MEASURED else "no pairs completed"
    text = f"{sentences.measured_words(attempt)} in {attempt.trial.pairs} pairs"
    compared = attempt.latency_p99 if attempt.rate_held and attempt.latency_p99 else effect
    if noise is not None and max(compared.ratio, 1 / compared.ratio) - 1 < noise:
        text += "; smaller than the noise floor"
    return text


def zooms(run: RunFile, story: RunSummary, end_ms: float) -> list[Zoom]:
    """Buttons: all of the run, and each trial."""
    buttons = [Zoom("All of the run", 0, end_ms / 1000)]
    for attempt in story.all_attempts:
        label = {"noise": "Noise floor", "recheck": attempt.trial.title}
        slices = run.slices(trial_id=attempt.trial.id)
        if slices:
            last_ms = max(s.ended_ms or end_ms for s in slices)
            name = label.get(attempt.trial.kind, attempt.title)
            buttons.append(Zoom(name, slices[0].started_ms / 1000, last_ms / 1000))
    return buttons


def course_texts(course: Course) -> list[tuple[str, list[str]]]:
    """Sudden changes and drops, each under its label."""
    return [
        ("Sudden changes of throughput", change_sentences(course)),
        ("Drops, throughput below a fifth of its median", drop_sentences(course)),
    ]


def unmeasured(run: RunFile) -> str:
    """What the probes could not read, from the events that they left; empty when nothing."""
    said = {
        f"{event.detail.get('probe', event.label)} ({event.detail['reason']})": None
        for event in run.events("probe")
        if tells_of_missing_probe(event)
    }
    return f"Not measured: {'; '.join(said)}." if said else ""
