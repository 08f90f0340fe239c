"""Names and values in a spec that other modules define: settings, faults, candidates, keys.

A run would report them only when it needs them; ``spec check`` reports them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.spec import Spec


def check_names(spec: Spec) -> None:
    """Raise UsageError for an invalid name, SetupError if the server is not installed."""
    from pgdyno.branch.preparing import variants_of
    from pgdyno.conduct import check_settings
    from pgdyno.dimension import change_of, spec_with
    from pgdyno.drill.fault import find_fault

    for chapter in spec.story:
        if chapter.fault is not None:
            find_fault(chapter.fault)
    if spec.branches:
        variants_of(spec)
    changes = list(_changes(spec))
    for keys, _ in changes:
        spec_with(spec, change_of(keys=keys))
    if spec.server.kind == "embedded":
        check_settings(spec, spec.server.settings, *(settings for _, settings in changes))


def _changes(spec: Spec) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Yield keys and settings of everything that the spec would change."""
    from pgdyno.price.candidates import choose

    for event in spec.events:
        yield {}, event.settings or {}
    for chapter in spec.story:
        yield chapter.vary, chapter.settings
    for branch in spec.branches:
        yield branch.vary, branch.settings
    if spec.price.ladder is not None or spec.price.candidates:
        prices = spec.price
        candidates = choose(prices.ladder, prices.candidates, spec, where="price.candidates")
        for candidate in candidates:
            yield {**candidate.base.spec, **candidate.change.spec}, candidate.change.settings
