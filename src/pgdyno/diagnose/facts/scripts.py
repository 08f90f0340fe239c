"""The script of a load that has only one, as its text shows what a transaction does."""

from __future__ import annotations

from pgdyno.diagnose.facts.slices import Facts


def only_script(s: Facts) -> str | None:
    """Return the text of the load's only script: a built-in one, or one whose text was recorded.

    None if a client group has scripts of its own, or there are several.
    """
    from pgdyno.workload.builtin import builtin_texts

    spec = s.run.run.spec
    mix = spec.get("workload", {}).get("script")
    if any(group.get("script") for group in spec.get("clients", [])):
        return None
    if isinstance(mix, str):
        return builtin_texts().get(mix)
    if not mix or len(mix) > 1:
        return None
    return mix[0].get("text") or builtin_texts().get(mix[0].get("builtin") or "")
