"""The answer of ``pgdyno branch`` in a sentence."""

from __future__ import annotations

from pgdyno.results.branch import BranchResult


def sentence_of(result: BranchResult) -> str:
    """Return the answer: each branch against the first, and what they began with."""
    first, *others = result.branches
    compared = "; ".join(f"{each.name}: {each.sentence}" for each in others)
    measurements = sum(len(each.starts) for each in result.branches)
    rows = sum(result.state.rows.values())
    began = (
        f"all {measurements} measurements began with the same {rows:,} rows and the same pages"
        if result.same_state
        else "the measurements did not all begin with the same rows and pages"
    )
    return f"against {first.name}, {compared}; {began}"
