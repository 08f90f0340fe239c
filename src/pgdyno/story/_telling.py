"""Carries a spec's story out: each chapter a comparison or a drill, with a run file of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pgdyno.conduct import Watcher, open_session
from pgdyno.conduct.repeating import recorded_fields
from pgdyno.dimension import change_of, spec_with
from pgdyno.drill.fault import find_fault
from pgdyno.drill.model import DrillOptions, DrillResult
from pgdyno.drill.running import check_drill, run_drill
from pgdyno.drill.trust import untrusted
from pgdyno.drill.words import in_words
from pgdyno.errors import UsageError
from pgdyno.investigate import compare
from pgdyno.record import RunFile
from pgdyno.results import store
from pgdyno.results.chapter import RecordedChapter
from pgdyno.results.story import ToldChapter
from pgdyno.spec import Change, Spec
from pgdyno.spec.story import Chapter
from pgdyno.spec.units import format_duration
from pgdyno.story._luck import luck
from pgdyno.trial.trust import check_something_succeeded
from pgdyno.workload import with_texts

HARMED = ("lost", "refused", "corrupt")


def tell(
    spec: Spec,
    *,
    spec_text: str,
    watcher: Watcher,
    path_of: Callable[[int], Path],
    only: int | None = None,
) -> Iterator[ToldChapter]:
    """Carry out the chapters of ``spec``, or ``only`` one; each when it has ended.

    ``path_of`` gives the run file of a chapter by its number, from 1. All chapters are checked
    before the first begins; raises UsageError for what cannot be.
    """
    chapters = dict(enumerate(spec.story, start=1))
    if not chapters:
        raise UsageError(
            f"{spec.name} has no story",
            code="no-story",
            hint="its chapters are [[story]] tables, as in scenarios/wal-on-ram.toml",
        )
    if only is not None and only not in chapters:
        raise UsageError(f"there is no chapter {only}: {len(chapters)} in all", code="no-chapter")
    spec = with_texts(spec)
    plain = spec.model_copy(update={"story": []})
    specs = {number: _spec_of(plain, chapter) for number, chapter in chapters.items()}
    for number, chapter in chapters.items():
        if only in (None, number):
            watcher.step(f"chapter {number} of {len(chapters)}: {chapter.title}")
            carry_out = _compare if chapter.fault is None else _drill
            path = path_of(number)
            of = recorded_fields(spec)
            done = carry_out(number, chapter, plain, specs[number], spec_text, watcher, path, of)
            yield _chapter(number, chapter, path, done)


def _spec_of(spec: Spec, chapter: Chapter) -> Spec:
    """The spec with what the chapter has different, checked."""
    changed = spec_with(spec, chapter_change(chapter), where=f'chapter "{chapter.title}"')
    if chapter.fault is not None:
        check_drill(changed, _options(chapter, spec), find_fault(chapter.fault))
    return changed


def chapter_change(chapter: Chapter) -> Change:
    """What a chapter compares the spec with."""
    return change_of(settings=chapter.settings, keys=chapter.vary)


def _options(chapter: Chapter, spec: Spec) -> DrillOptions:
    assert chapter.fault is not None
    return DrillOptions(
        fault=chapter.fault,
        variant=chapter.variant,
        cuts=chapter.cuts,
        seed=1 if spec.load.seed is None else spec.load.seed,
    )


def _compare(
    number: int,
    chapter: Chapter,
    spec: Spec,
    _: Spec,
    spec_text: str,
    watcher: Watcher,
    path: Path,
    of: Mapping[str, Any],
) -> dict[str, Any]:
    change = chapter_change(chapter)
    budget = ("--budget", format_duration(chapter.budget_ms))
    with open_session(
        spec,
        run=path,
        command="compare",
        spec_text=spec_text,
        watcher=watcher,
        asked=(*_options_of(chapter), *budget),
    ) as session:
        result = compare(session, change, title=chapter.title, budget_s=chapter.budget_ms / 1000)
        facts = result.to_json()
        done = {
            "kind": "comparison",
            "endings": {"": result.decision},
            "sentences": [result.sentence],
            "luck": [],
            "distrust": list(result.distrust),
            "facts": {key: facts[key] for key in ("throughput_tps", "effect")},
        }
        chapter_told = RecordedChapter(**_told(number, chapter, done), of=of)
        store(session.recorder, result.model_copy(update={"chapter": chapter_told}))
        check_something_succeeded(session.reader())
    return done


def _drill(
    number: int,
    chapter: Chapter,
    spec: Spec,
    changed: Spec,
    spec_text: str,
    watcher: Watcher,
    path: Path,
    of: Mapping[str, Any],
) -> dict[str, Any]:
    options = _options(chapter, spec)
    variant = ("--variant", options.variant) if options.variant else ()
    result = run_drill(
        changed,
        options,
        watcher=watcher,
        run=path,
        command="drill",
        spec_text=spec_text,
        asked=(
            *("--fault", options.fault, *variant),
            *("--cuts", str(options.cuts)),
            *(() if spec.load.seed is None else ("--seed", str(options.seed))),
        ),
        extra=lambda drill: {
            "chapter": RecordedChapter(**_told(number, chapter, _drilled(drill)), of=of)
        },
    )
    return _drilled(result)


def _options_of(chapter: Chapter) -> list[str]:
    """What ``pgdyno compare`` takes for a chapter's change."""
    words = []
    for option, values in (("--set", chapter.settings), ("--vary", chapter.vary)):
        for name, value in values.items():
            words += [option, f"{name}={value}"]
    return words


def _drilled(result: DrillResult) -> dict[str, Any]:
    return {
        "kind": "drill",
        "endings": _endings(result),
        "sentences": [in_words(cut) for cut in result.cuts],
        "luck": luck(result),
        "distrust": _distrust(result),
        "facts": result.summary().to_json(),
    }


def _distrust(result: DrillResult) -> list[str]:
    with RunFile(result.run_file) as run:
        problem = untrusted(result, run)
    return [problem.message] if problem else []


def _endings(result: DrillResult) -> dict[str, str]:
    """By variant, the outcome of its cuts; of several the worst."""
    worst_first = ("no-fault", "corrupt", "refused", "lost", "clean")
    found: dict[str, str] = {}
    for cut in result.cuts:
        known = found.get(cut.variant, "clean")
        found[cut.variant] = min(known, cut.outcome, key=worst_first.index)
    return found


def _chapter(number: int, chapter: Chapter, path: Path, done: Mapping[str, Any]) -> ToldChapter:
    told = {**_told(number, chapter, done), **done}
    return ToldChapter(**told, run_file=str(path), trustworthy=not done["distrust"])


def _told(number: int, chapter: Chapter, done: Mapping[str, Any]) -> dict[str, Any]:
    """What a chapter's own run file says of it besides its figures."""
    return {
        "number": number,
        "title": chapter.title,
        "remark": chapter.remark,
        "endings": done["endings"],
        "luck": done["luck"],
        "expected": chapter.expect,
        "as_expected": _as_expected(chapter, done["endings"]),
    }


def _as_expected(chapter: Chapter, endings: Mapping[str, str]) -> bool | None:
    """Whether it ended so; ``None`` when nothing was expected."""
    if chapter.expect is None:
        return None
    wanted = chapter.expect
    if not isinstance(wanted, dict):
        wanted = dict.fromkeys(endings, wanted)
    return all(_fits(ending, endings.get(variant)) for variant, ending in wanted.items())


def _fits(wanted: str, ending: str | None) -> bool:
    return ending in HARMED if wanted == "harmed" else ending == wanted
