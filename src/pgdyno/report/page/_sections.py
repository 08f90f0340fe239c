"""Sections of the page of a load: headline, notes, steps, findings, price list, zoom buttons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pgdyno import numbers
from pgdyno.dimension import title_of
from pgdyno.facts.course import Course
from pgdyno.record import RunFile, TrialDecision, TrialKind
from pgdyno.record.finding import Finding
from pgdyno.remedy import Assessment, assess, catalogue
from pgdyno.report.attempts import Attempt, in_force
from pgdyno.report.charts.event_marks import is_missing_probe
from pgdyno.report.page._parts import Block, OwnSection, Zoom
from pgdyno.report.summary import RunSummary
from pgdyno.report.view import (
    Banner,
    Bullets,
    Card,
    Cards,
    Charts,
    Commands,
    Headline,
    Numbered,
    OnPage,
    Part,
    Section,
    Tag,
    Tags,
    Terms,
    Text,
    sections_of,
)
from pgdyno.report.words import (
    accounts,
    headlines,
    prose,
    repeat,
    sentences,
)
from pgdyno.report.words.course import change_sentences, drop_sentences
from pgdyno.report.words.findings import evidence_table, finding_name
from pgdyno.report.words.sentences import decision_words, expectation
from pgdyno.report.words.tables import Table
from pgdyno.results.chapter import RecordedChapter

TONES = {
    "kept": "good",
    "still earns": "good",
    "better": "good",
    "offered": "warn",
    "inconclusive": "warn",
    "mixed": "bad",
    "not comparable": "bad",
    "taken back": "bad",
    "worse": "bad",
}
ENDINGS = {
    "failed": "The run failed.",
    "interrupted": "The run was interrupted.",
    "running": "The run is still running.",
}
INCIDENTS_MAX = 8
STATUS_TONES = {"proved": "good", "helped": "warn", "found": "warn"}


def frame(summary: RunSummary, verdict: str, lead: str) -> dict[str, Any]:
    """Return the parts that every page of a run has."""
    run, info = summary.run, summary.info
    return {
        "name": info.name,
        "pgdyno_version": info.pgdyno_version,
        "run_file": run.path.name,
        "subtitle": [
            *sentences.setting_of_run(info, summary.connected),
            sentences.started_at(info),
        ],
        "verdict": verdict,
        "title": headlines.title_of(info.name, verdict),
        "lead": lead,
        "facts": accounts.fact_tables(run),
        "repeat_text": repeat.save_spec_text(info),
        "spec_lines": accounts.spec_lines(info.spec),
        "spec_command": [repeat.spec_command(run)],
        "repeat_lines": repeat.repeat_lines(run),
    }


def headline(run: RunFile, summary: RunSummary) -> list[Headline]:
    """Return the large figures: throughput, p99, failures, duration, trust."""
    figures = [*_levels(run, summary), *_failed(run, summary)]
    if taken := sentences.time_taken(run.run):
        figures.append(Headline("Duration", taken, note=sentences.started_at(run.run)))
    return [*figures, _trust(summary)]


def _levels(run: RunFile, summary: RunSummary) -> list[Headline]:
    """Return throughput and p99 at the end, and at the start if they changed."""
    before, after = summary.before, summary.after
    if before is None:
        return []
    if after is None:
        tps = numbers.tps(before.throughput_tps)
        return [Headline("Throughput before", tps, "tps", note=summary.gain_words)]
    changed = summary.changed
    return [
        Headline(
            "Throughput",
            numbers.tps(after.throughput_tps),
            "tps",
            numbers.tps(before.throughput_tps) if changed else "",
            summary.gain_words if changed else _interval_note(run, summary),
        ),
        Headline(
            "Response time p99",
            *(_value_and_unit(after.latency_p99_ms)),
            _value_and_unit(before.latency_p99_ms)[0] if changed else "",
            summary.p99_gain_words if changed else _median_note(run, summary),
        ),
    ]


def _trust(summary: RunSummary) -> Headline:
    label = "Trustworthy"
    if summary.distrust:
        return Headline(label, "no", note="see below")
    if summary.result_unreadable:
        return Headline(label, "unknown", note="see below")
    if summary.info.status != "done":
        return Headline(label, "in part", note="the run did not reach its planned end")
    reason = "the ledger adds up and the load generator was not the limit"
    return Headline(label, "yes", note=reason)


def _value_and_unit(value_ms: float | None) -> tuple[str, str]:
    value, _, unit = numbers.ms(value_ms).partition(" ")
    return value, unit


def _interval_note(run: RunFile, summary: RunSummary) -> str:
    """Return the interval of a run's mean and the measured time."""
    if not summary.view.is_run:
        return summary.before.source if summary.before else ""
    return sentences.mean_interval_words(run, summary)


def _median_note(run: RunFile, summary: RunSummary) -> str:
    ids = summary.before.slice_ids if summary.before else None
    response = run.histogram("response", ids)
    if not response.count:
        return ""
    return f"p50 {numbers.ns(response.percentile(50))}, p95 {numbers.ns(response.percentile(95))}"


def _failed(run: RunFile, summary: RunSummary) -> list[Headline]:
    """Return the number of failed transactions of a run or a soak."""
    if not summary.view.is_run or summary.before is None:
        return []
    ledger = run.ledger(summary.before.slice_ids)
    ended = ledger.done + ledger.failed
    share = f" ({numbers.percent(ledger.failed / ended)})" if ledger.failed and ended else ""
    note = f"of {numbers.count(ended)} transactions{share}"
    return [Headline("Failed", numbers.count(ledger.failed), note=note)]


def banners(run: RunFile, summary: RunSummary, *, with_chapter: bool = True) -> list[Banner]:
    """Return the banners at the top of the page; ``with_chapter``: with that of its chapter."""
    found = []
    if summary.distrust:
        reasons = prose.sentence("; ".join(summary.distrust))
        found.append(Banner("The figures cannot be trusted.", reasons, bad=True))
    if summary.behind:
        text = prose.sentence("; ".join(summary.behind))
        found.append(Banner("Clients fell behind their rate.", text, bad=True))
    if summary.incidents:
        listed = [f"at {numbers.clock(i.at_s)} {i.sentence}" for i in summary.incidents]
        shown = listed[:INCIDENTS_MAX]
        more = [f"and {len(listed) - len(shown)} more"] if len(listed) > len(shown) else []
        text = prose.sentence("; ".join([*shown, *more]))
        found.append(Banner("Incidents of the server.", text, bad=True))
    return [*found, *circumstances(summary, with_chapter=with_chapter)]


def circumstances(summary: RunSummary, *, with_chapter: bool = True) -> list[Banner]:
    """Return the chapter, how the run ended if not as planned, and the emulated disk."""
    info = summary.info
    found = _chapter_banners(summary.chapter) if with_chapter else []
    if summary.result_unreadable:
        text = prose.sentence(sentences.RESULT_UNREADABLE)
        found.append(Banner("The result is missing.", text, bad=True))
    if info.status in ENDINGS:
        detail = prose.sentence(info.status_detail)
        text = f"{detail} What was recorded until then is shown.".strip()
        found.append(Banner(ENDINGS[info.status], text, bad=info.status == "failed"))
    if disk := summary.emulated:
        text = f"Measured with {disk}: {sentences.NOT_A_REAL_DISK}."
        found.append(Banner("Emulated disk.", text))
    return found


def _chapter_banners(chapter: RecordedChapter | None) -> list[Banner]:
    """Return the chapter of a story, its expected ending, and where luck played a part."""
    if chapter is None:
        return []
    expected = expectation(chapter)
    text = f"{chapter.remark} Expected: {expected}." if expected else chapter.remark
    head = f"Chapter {chapter.number}: {prose.sentence(chapter.title)}"
    return [
        Banner(head, text, bad=chapter.as_expected is False),
        *(Banner("Luck played a part.", f"{luck}.") for luck in chapter.luck),
    ]


def finding_cards(summary: RunSummary) -> list[Card]:
    """Return a card for each finding, in the order of the diagnoses."""
    found = [f for f in summary.findings if f.was_found]
    several = len({finding.step for finding in summary.findings}) > 1
    return [_finding_card(summary, f, _when(summary, f.step) if several else "") for f in found]


def _when(summary: RunSummary, step: int) -> str:
    """Return the kept change after which a diagnosis was made, in words."""
    kept = [
        a
        for a in summary.attempts
        if a.trial.decision is TrialDecision.KEPT and a.trial.step <= step
    ]
    return f"after {kept[-1].title}" if kept and step else "at the start"


def _finding_card(summary: RunSummary, finding: Finding, when: str) -> Card:
    tags = [Tag(finding.status, STATUS_TONES.get(finding.status, "plain"))]
    if finding.rank == 1 and (summary.single_run is None or finding == summary.limit):
        tags.append(Tag("the limit", "warn"))
    elif finding.rank is None:
        tags.append(Tag("minor"))
    if when:
        tags.append(Tag(when))
    causes = numbers.listed([finding_name(str(cause)) for cause in finding.causes], most=None)
    confidence = finding.confidence
    terms = [
        ("Confidence", "" if confidence is None else numbers.percent(confidence)),
        ("Symptom of", causes),
        ("Wrong if", prose.sentence(finding.false_positives)),
        ("Might help", prose.sentence("; ".join(sentences.might_help([finding], summary)))),
        ("Advice", prose.sentence(finding.advice)),
    ]
    return Card(
        title=prose.capital(finding_name(finding.id)),
        tags=tags,
        terms=[(term, text) for term, text in terms if text],
        sentence=prose.sentence(finding.sentence),
        evidence=evidence_table(finding),
        lines=finding.commands,
    )


def verdict_table(findings: Sequence[Finding], status: str) -> Table | None:
    """Return the findings that were cleared, or skipped, in the last diagnosis that has them."""
    last = {f.id: f for f in findings}
    chosen = [f for f in last.values() if f.status == status]
    if not chosen:
        return None
    captions = {
        "cleared": "Checked and cleared: not a limit of this load",
        "skipped": "Skipped: not checked and therefore not cleared",
    }
    head = ["Rule", "Reason"]
    rows = [[prose.capital(finding_name(f.id)), prose.sentence(f.sentence)] for f in chosen]
    return Table(captions[status], head, rows)


def price_cards(summary: RunSummary) -> list[Card]:
    """Return a card for each measured change, or for each proposed one if none was measured; none
    for a levelled trial, whose sides are there to be compared and not to be used."""
    if not summary.attempts:
        return [card for finding in summary.limits for card in _proposal_cards(finding, summary)]
    order = {"kept": 0, "better": 0, "offered": 1, "inconclusive": 2}
    to_use = [each for each in summary.attempts if each.trial.kind is not TrialKind.LEVELLED]
    attempts = sorted(to_use, key=lambda a: order.get(a.outcome, 3) if a.was_measured else 4)
    return [_price_card(attempt, summary) for attempt in attempts]


def _price_card(attempt: Attempt, summary: RunSummary) -> Card:
    p99 = attempt.latency_p99
    terms = [
        ("Throughput", _gain(attempt)),
        ("p99", f"{numbers.change_percent(p99.ratio)} ({p99})" if p99 else ""),
        ("Postponed", prose.sentence(sentences.postponed_words(attempt))),
        ("Tried", sentences.set_by_words(attempt)),
        ("Took", prose.sentence(sentences.took_words(summary))),
        ("Durability", prose.sentence(sentences.class_words(attempt, summary))),
        ("To prove it", _proving(attempt, summary)),
    ]
    return Card(
        title=attempt.title,
        tags=[Tag(attempt.outcome, TONES.get(attempt.outcome, "plain")), *_price_tags(attempt)],
        terms=[(t, text) for t, text in [*terms, *_price_terms(attempt.assessment)] if text],
        lines=attempt.assessment.lines_to_apply(),
        undo=attempt.assessment.lines_to_undo(summary.before_all),
    )


def _proving(attempt: Attempt, summary: RunSummary) -> str:
    """Return the command that measures what was not measured here; '' for all else."""
    return "" if attempt.was_measured else repeat.compare_line(summary.run, attempt.change)


def _price_tags(attempt: Attempt) -> list[Tag]:
    tags = []
    if attempt.durability_class:
        tags.append(Tag(attempt.durability_class, "plain" if attempt.loses_nothing else "warn"))
    return tags + _need_tags(attempt.assessment)


def _need_tags(assessment: Assessment) -> list[Tag]:
    return [Tag({"client": "client side"}.get(need, need)) for need in assessment.needs]


def _price_terms(assessment: Assessment) -> list[tuple[str, str]]:
    """Return the costs of a change from the catalogue."""
    needs = "; ".join(sentences.NEED_MEANING[need] for need in assessment.needs)
    return [
        ("Bound", prose.sentence(assessment.loss)),
        ("Costs", prose.sentence(assessment.price)),
        ("Applied", prose.sentence(needs)),
        (
            "Effect",
            "Appears only over whole checkpoint cycles." if assessment.checkpoint_bound else "",
        ),
        (
            "Acts on",
            "" if assessment.acts_on_existing_rows else "Only rows that are written afterwards.",
        ),
    ]


def _proposal_cards(finding: Finding, summary: RunSummary) -> list[Card]:
    """Return a card for each proposal of a finding; none was measured."""
    cards = []
    for proposal in finding.proposals:
        remedy, change = catalogue().get(proposal.remedy_id), proposal.change
        if remedy is None:
            continue
        assessment = assess(change, in_force(summary.info))
        name = assessment.durability_class
        load = sentences.full_load(summary.info)
        prediction = sentences.prediction(remedy, proposal, load)
        terms = [
            ("Prevents" if remedy.guards else "Throughput", f"{prediction}; not measured"),
            ("Because", prose.sentence(proposal.why)),
            ("Durability", f"{name}: {sentences.CLASS_MEANING[name]}."),
            *_price_terms(assessment),
            ("To prove it", repeat.compare_line(summary.run, change)),
        ]
        cards.append(
            Card(
                title=title_of(change),
                tags=[Tag("predicted"), Tag(name, "plain" if name == "D0" else "warn"),
                      *_need_tags(assessment)],
                terms=[(term, text) for term, text in terms if text],
                lines=assessment.lines_to_apply(),
                undo=assessment.lines_to_undo(summary.before_all),
            )
        )  # fmt: skip
    return cards


def _gain(attempt: Attempt) -> str:
    if attempt.throughput is None:
        return "no pairs completed" if attempt.was_measured else decision_words(attempt)
    return f"{sentences.measured_words(attempt)} in {attempt.trial.pairs} pairs"


def zooms(run: RunFile, summary: RunSummary, end_ms: float) -> list[Zoom]:
    """Return the zoom buttons: the whole run and each trial."""
    buttons = [Zoom("Whole run", 0, end_ms / 1000)]
    for attempt in summary.all_attempts:
        label = {
            TrialKind.NOISE: "Noise floor",
            TrialKind.RECHECK: attempt.trial.title,
            TrialKind.TOTAL: "As it was, everything kept",
        }
        slices = run.slices(trial_id=attempt.trial.id)
        if slices:
            last_ms = max(s.ended_ms or end_ms for s in slices)
            name = label.get(attempt.trial.kind, attempt.title)
            buttons.append(Zoom(name, slices[0].started_ms / 1000, last_ms / 1000))
    return buttons


def course_texts(course: Course) -> list[tuple[str, list[str]]]:
    """Return sudden changes and drops, each with its label."""
    return [
        ("Sudden changes of throughput and response times", change_sentences(course)),
        ("Drops, throughput below a fifth of its median", drop_sentences(course)),
    ]


def unmeasured(run: RunFile) -> str:
    """Return the gaps of the probes, from their events; '' if they read everything."""
    missing = {
        f"{event.detail.get('probe', event.label)} ({event.detail['reason']})": None
        for event in run.events("probe")
        if is_missing_probe(event)
    }
    return f"Not measured: {'; '.join(missing)}." if missing else ""


def own_sections(summary: RunSummary) -> list[OwnSection]:
    """Return the sections that the run has beside those of its load, without those that are
    empty."""
    return [made for each in sections_of(summary) if (made := section_of(each)).blocks]


def section_of(section: Section) -> OwnSection:
    """Return a section with its charts made."""
    blocks = [block for part in section.parts for block in _block(part)]
    by_clients = any(isinstance(part, Charts) and part.by_clients for part in section.parts)
    return OwnSection(section.id, section.title, blocks, by_clients)


def _block(given: Part) -> Iterator[Block]:
    match given.part if isinstance(given, OnPage) else given:
        case Table() as table:
            yield Block(table=table)
        case Text() as text:
            yield Block(text=text)
        case Terms() as terms:
            yield Block(terms=list(_labelled(terms)))
        case Banner() as banner:
            yield Block(banner=banner)
        case Tags(tags):
            yield Block(tags=tags)
        case Bullets(said) if said:
            yield Block(bullets=said)
        case Cards(cards) if cards:
            yield Block(cards=cards)
        case Numbered(items) if items:
            yield Block(items=items)
        case Charts() as charts:
            if made := list(charts.make()):
                yield Block(charts=made, side_by_side=charts.side_by_side)
        case Commands(lines):
            yield Block(lines=lines)


def _labelled(terms: Terms) -> Iterator[tuple[str, str]]:
    for each in terms.terms:
        yield (
            each.label if terms.are_names else prose.capital(each.label),
            each.text if terms.as_written else prose.sentence(each.text),
        )
