"""The chapters of a story, in order: each a comparison, a drill or a run with its own run file;
their result, and the errors that decide the exit status.

Of a drill that went well the result also says which risks it happened not to exercise, and which
the next crash may: each sentence is derived from the drill's own cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pgdyno.compare.change import compare
from pgdyno.conduct import Watcher, open_session
from pgdyno.conduct.repeating import recorded_fields
from pgdyno.dimension import change_of, spec_with
from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import DrillOptions, in_words
from pgdyno.drill.running import check_drill, run_drill
from pgdyno.drill.trust import untrusted
from pgdyno.errors import ThresholdError, TrustError, UsageError
from pgdyno.facts import client_sessions
from pgdyno.govern.in_run import governing
from pgdyno.investigate.run import run_spec
from pgdyno.json_types import Json
from pgdyno.numbers import counted, figure
from pgdyno.record import RunFile, SliceKind
from pgdyno.record.cut import Cut
from pgdyno.results import chapter as results
from pgdyno.results import store
from pgdyno.results.chapter import by_variant
from pgdyno.results.compare import CompareResult
from pgdyno.results.drill import Drill, Summary
from pgdyno.results.run import RunResult
from pgdyno.results.story import Compared, FinishedChapter, Observed, StoryResult
from pgdyno.spec import Change, Spec
from pgdyno.spec.story import Chapter
from pgdyno.spec.units import format_duration
from pgdyno.trial.trust import check_something_succeeded
from pgdyno.workload import with_texts

SMALL_WAL_BYTES = 64 << 10
"""WAL of a checkpoint and a snapshot, without any write of a client."""
NO_RESCUE = "resetwal"
"""The variant that starts the server without the standby."""


def statuses(chapter: Chapter, result: RunResult) -> dict[str, results.Ending]:
    """Return finding → whether it was found, of those that the chapter expects; without any, of
    those that were found. What could not be examined is skipped."""
    known: dict[str, results.Ending] = {
        each.id: each.status if each.status in ("cleared", "skipped") else "found"
        for each in result.findings
    }
    if isinstance(chapter.expect, dict):
        return {name: known.get(name, "skipped") for name in chapter.expect}
    return {name: status for name, status in known.items() if status == "found"}


def unexplained(chapter: Chapter, result: RunResult, run: RunFile) -> tuple[str, ...]:
    """Return the reasons to distrust the run, less those that the chapter is about: that clients
    were not connected, where it expects the finding that says why."""
    about = [name for name, status in statuses(chapter, result).items() if status == "found"]
    expected = isinstance(chapter.expect, dict) and any(n in chapter.expect for n in about)
    void = {each.void for each in run.slices(SliceKind.RUN) if each.void} if expected else set()
    return tuple(reason for reason in result.distrust if reason not in void)


def observed_figures(result: RunResult, run: RunFile) -> Observed:
    """Return the figures of the run."""
    ids = [each.id for each in run.slices(SliceKind.RUN)]
    seconds = run.seconds(ids)
    states = client_sessions.by_state(run, ids)
    means = {name: float(n.mean()) if len(n) else 0.0 for name, n in states.items()}
    done = sum(each.done for each in result.statements)
    return Observed(
        throughput_tps=result.throughput_tps,
        statements_per_s=round(done / seconds, 1) if seconds else 0.0,
        connections=round(sum(means.values()), 1),
        connections_idle=round(means.get("idle", 0.0), 1),
    )


def observed_sentences(chapter: Chapter, result: RunResult, run: RunFile) -> Iterator[str]:
    """Yield the figures, and what the findings say."""
    figures = observed_figures(result, run)
    p99 = result.latency_ms.response.p99
    yield (
        f"{figure(figures.throughput_tps)} transactions and {figure(figures.statements_per_s)}"
        f" statements per second{'' if p99 is None else f', p99 {figure(p99)} ms'};"
        f" {counted(figures.connections, 'connection', 'connections')} to the server, of which"
        f" {figure(figures.connections_idle)} are idle"
    )
    if result.governor is not None:
        yield result.governor.sentence
    said = {each.id: each.sentence for each in result.findings}
    for name, status in statuses(chapter, result).items():
        yield f"{name.replace('-', ' ')}: {status}: {said.get(name, 'the run was not diagnosed')}"


HARMED = ("lost", "refused", "corrupt")
_WORST_FIRST: tuple[results.Ending, ...] = ("no-fault", "corrupt", "refused", "lost", "clean")


class ChapterOutcome(Struct, frozen=True):
    """The outcome of a chapter."""

    kind: Literal["comparison", "drill", "run"]
    endings: dict[str, results.Ending]
    """By variant of the fault, the worst of its cuts; '' if there is only one; of a run, by
    finding."""
    sentences: tuple[str, ...]
    luck: tuple[str, ...]
    distrust: tuple[str, ...]
    facts: Compared | Summary | Observed


class ChapterRun(Struct, frozen=True, dict=True):
    """A chapter to run: its number from 1, its specs and its run file."""

    number: int
    chapter: Chapter
    story: Spec
    """The spec of the whole story."""
    changed: Spec
    """The story's spec with the chapter's changes."""
    spec_text: str
    path: Path
    watcher: Watcher

    @cached_property
    def plain(self) -> Spec:
        """The story's spec without its chapters."""
        return self.story.model_copy(update={"story": []})

    def run(self) -> FinishedChapter:
        """Run the chapter, and record it."""
        ways = {"comparison": self._compare, "drill": self._drill, "run": self._observe}
        outcome = ways[self.chapter.kind]()
        return FinishedChapter(
            **dict(self._result(outcome)),
            run_file=str(self.path),
            trustworthy=not outcome.distrust,
            kind=outcome.kind,
            sentences=outcome.sentences,
            distrust=outcome.distrust,
            facts=outcome.facts,
        )

    def _compare(self) -> ChapterOutcome:
        budget = ("--budget", format_duration(self.chapter.budget_ms))
        with open_session(
            self.plain,
            run=self.path,
            command="compare",
            spec_text=self.spec_text,
            watcher=self.watcher,
            asked=(*_change_options(self.chapter), *budget),
        ) as session:
            result = compare(
                session,
                chapter_change(self.chapter),
                title=self.chapter.title,
                budget_s=self.chapter.budget_ms / 1000,
            )
            outcome = _compared(result)
            recorded = result.model_copy(update={"chapter": self._recorded(outcome)})
            store(session.recorder, recorded)
            check_something_succeeded(session.reader())
        return outcome

    def _observe(self) -> ChapterOutcome:
        with open_session(
            self.changed,
            run=self.path,
            command="run",
            spec_text=self.spec_text,
            watcher=self.watcher,
        ) as session:
            result = run_spec(session, governing(session))
            run = session.reader()
            check_something_succeeded(run)
            distrust = unexplained(self.chapter, result, run)
            outcome = ChapterOutcome(
                kind="run",
                endings=statuses(self.chapter, result),
                sentences=tuple(observed_sentences(self.chapter, result, run)),
                luck=(),
                distrust=distrust,
                facts=observed_figures(result, run),
            )
            changes = {"chapter": self._recorded(outcome), "distrust": distrust}
            recorded = result.model_copy(update={**changes, "trustworthy": not distrust})
            store(session.recorder, recorded)
        return outcome

    def _drill(self) -> ChapterOutcome:
        options = _drill_options(self.chapter, self.story)
        variant = ("--variant", options.variant) if options.variant else ()
        seed = () if self.story.load.seed is None else ("--seed", str(options.seed))
        result = run_drill(
            self.changed,
            options,
            watcher=self.watcher,
            run=self.path,
            command="drill",
            spec_text=self.spec_text,
            asked=("--fault", options.fault, *variant, "--cuts", str(options.cuts), *seed),
            extra=lambda drill: {"chapter": self._recorded(_drilled(drill))},
        )
        return _drilled(result)

    def _recorded(self, outcome: ChapterOutcome) -> results.RecordedChapter:
        return results.RecordedChapter(
            **dict(self._result(outcome)), of=recorded_fields(self.story)
        )

    def _result(self, outcome: ChapterOutcome) -> results.Chapter:
        """Return the chapter as its run file and the story's result have it."""
        chapter = self.chapter
        return results.Chapter(
            number=self.number,
            title=chapter.title,
            remark=chapter.remark,
            endings=outcome.endings,
            luck=outcome.luck,
            expected=chapter.expect,
            as_expected=as_expected(chapter, outcome.endings),
        )


def run_story(
    spec: Spec,
    *,
    spec_text: str,
    watcher: Watcher,
    path_of: Callable[[int], Path],
    only: int | None = None,
) -> Iterator[FinishedChapter]:
    """Run the chapters of ``spec``, or ``only`` one, and yield each when it has ended.

    ``path_of`` returns the run file of a chapter by its number, from 1. All chapters are checked
    before the first one begins. Raises UsageError.
    """
    chapters = dict(enumerate(spec.story, start=1))
    if not chapters:
        raise UsageError(
            f"{spec.name} has no story",
            code="no-story",
            hint="a story has [[story]] tables, one for each chapter, as in"
            " scenarios/wal-on-ram.toml",
        )
    if only is not None and only not in chapters:
        raise UsageError(f"no chapter {only}: the story has {len(chapters)}", code="no-chapter")
    spec = with_texts(spec)
    changed = {number: _changed_spec(spec, chapter) for number, chapter in chapters.items()}
    for number, chapter in chapters.items():
        if only in (None, number):
            watcher.step(f"chapter {number} of {len(chapters)}: {chapter.title}")
            path = path_of(number)
            yield ChapterRun(number, chapter, spec, changed[number], spec_text, path, watcher).run()


def _changed_spec(story: Spec, chapter: Chapter) -> Spec:
    """Return the story's spec with the chapter's changes. Raises UsageError."""
    plain = story.model_copy(update={"story": []})
    changed = spec_with(plain, chapter_change(chapter), where=f'chapter "{chapter.title}"')
    if chapter.fault is not None:
        check_drill(changed, _drill_options(chapter, story), find_fault(chapter.fault))
    return changed


def chapter_change(chapter: Chapter) -> Change:
    """Return the change that a chapter makes to the story's spec."""
    return change_of(settings=chapter.settings, keys=chapter.vary)


def _drill_options(chapter: Chapter, story: Spec) -> DrillOptions:
    assert chapter.fault is not None
    return DrillOptions(
        fault=chapter.fault,
        variant=chapter.variant,
        cuts=chapter.cuts,
        seed=1 if story.load.seed is None else story.load.seed,
    )


def _change_options(chapter: Chapter) -> list[str]:
    """Return the options of ``pgdyno compare`` for a chapter's change."""
    words = []
    for option, values in (("--set", chapter.settings), ("--vary", chapter.vary)):
        for name, value in values.items():
            words += [option, f"{name}={value}"]
    return words


def _compared(result: CompareResult) -> ChapterOutcome:
    return ChapterOutcome(
        kind="comparison",
        endings={"": result.decision},
        sentences=(result.sentence,),
        luck=(),
        distrust=result.distrust,
        facts=Compared(throughput_tps=result.throughput_tps, effect=result.effect),
    )


def _drilled(result: Drill) -> ChapterOutcome:
    return ChapterOutcome(
        kind="drill",
        endings=_endings(result),
        sentences=tuple(in_words(cut) for cut in result.cuts),
        luck=tuple(luck(result)),
        distrust=_distrust(result),
        facts=result.summary,
    )


def _distrust(result: Drill) -> tuple[str, ...]:
    with RunFile(result.run_file) as run:
        problem = untrusted(result, run)
    return (problem.message,) if problem else ()


def _endings(result: Drill) -> dict[str, results.Ending]:
    """Return the worst outcome of each variant's cuts."""
    found: dict[str, results.Ending] = {}
    for cut in result.cuts:
        known = found.get(cut.variant, "clean")
        found[cut.variant] = min(known, cut.outcome, key=_WORST_FIRST.index)
    return found


def as_expected(chapter: Chapter, endings: Mapping[str, str]) -> bool | None:
    """Return whether the chapter ended as expected; ``None`` if nothing was expected."""
    if chapter.expect is None:
        return None
    expected = chapter.expect
    if not isinstance(expected, dict):
        expected = dict.fromkeys(endings, expected)
    return all(_fits(ending, endings.get(variant)) for variant, ending in expected.items())


def _fits(expected: str, ending: str | None) -> bool:
    return ending in HARMED if expected == "harmed" else ending == expected


SCHEMA_VERSION = 1


def story_result(
    spec: Spec, chapters: Sequence[FinishedChapter], page: Path | None = None
) -> StoryResult:
    """Return the result of the chapters that were finished; without ``page``, it has no page."""
    fields: Json = {
        "schema_version": SCHEMA_VERSION,
        "story": spec.name,
        "chapters": tuple(chapters),
    }
    if page is not None:
        fields["page"] = str(page)
    return StoryResult.model_construct(**fields)


def check_outcomes(chapters: Sequence[FinishedChapter]) -> None:
    """Raise TrustError for a chapter that cannot be trusted, ThresholdError for an unexpected
    outcome."""
    for chapter in chapters:
        if not chapter.trustworthy:
            raise TrustError(
                f"chapter {chapter.number}, {chapter.title}: the result cannot be trusted:"
                f" {'; '.join(chapter.distrust)}",
                code="not-trustworthy",
                hint=f"pgdyno show {chapter.run_file}",
            )
    for chapter in chapters:
        if chapter.as_expected is False:
            raise ThresholdError(
                f"chapter {chapter.number}, {chapter.title}: unexpected outcome:"
                f" {by_variant(chapter.endings)}",
                code="story-otherwise",
                hint=f"pgdyno show {chapter.run_file}",
            )


def luck(result: Drill) -> list[str]:
    """Return sentences about cuts that ended well, or better than could be relied on."""
    found: dict[str, list[str]] = {}
    by_name = {cut.variant: cut for cut in result.cuts}
    for cut in result.cuts:
        if cut.outcome in ("clean", "lost") and cut.facts.get("promised"):
            for sentence in (*_no_wal(cut), *_no_standby(cut, by_name), *_no_new_page(cut)):
                variants = found.setdefault(sentence, [])
                if cut.variant not in variants:
                    variants.append(cut.variant)
    return [f"{', '.join(variants)}: {sentence}" for sentence, variants in found.items()]


def _no_wal(cut: Cut) -> list[str]:
    """Return a sentence if the last checkpoint covered everything."""
    wal = cut.facts.get("wal_since_checkpoint_bytes")
    if wal is None or wal > SMALL_WAL_BYTES:
        return []
    return ["the last checkpoint covered everything, so no WAL was needed"]


def _no_standby(cut: Cut, by_name: dict[str, Cut]) -> list[str]:
    """Return a sentence if the rescue without the standby succeeded as well."""
    way = cut.variant.rpartition("/")[0]
    other = by_name.get(f"{way}/{NO_RESCUE}".removeprefix("/"))
    if other is None or other.outcome != "clean" or cut.outcome != "clean":
        return []
    return [
        "pg_resetwal alone, without the standby, succeeded as well, so this does not show that the"
        " standby helped"
    ]


def _no_new_page(cut: Cut) -> list[str]:
    """Return a sentence if the standby was behind and no page of the primary was newer than its
    WAL."""
    behind = max(cut.facts.get("behind_bytes", {}).values(), default=0) or 0
    copied = cut.variant.endswith("copy-back")
    if not copied or cut.outcome != "lost" or behind <= SMALL_WAL_BYTES:
        return []
    return [
        "the standby was behind, and the primary had not yet written a page newer than the"
        " standby's WAL; a moment later the copy would have been corrupt, and the server would have"
        " started without an error"
    ]
