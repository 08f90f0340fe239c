"""Settings of the planner, and settings put back to PostgreSQL's default."""

from __future__ import annotations

from pgdyno.remedy._remedy import Case, Remedy
from pgdyno.spec.server_settings import DEFAULTS


def _prepared(case: Case) -> bool:
    keys = case.change.spec
    by_driver = keys.get("front.prepare_threshold", "0") != "0"
    return by_driver or keys.get("load.protocol") == "prepared"


def _rewritten(case: Case) -> bool:
    return case.change.spec.get("front.rewrite_batched_inserts") == "true"


def _resets(case: Case) -> bool:
    """True if each of these settings that the change names gets its default, and had another."""
    named = [name.lower() for name in case.change.settings if name.lower() in DEFAULTS]
    return all(
        _is_default(name, case.after.settings.text(name))
        and not _is_default(name, case.before.settings.text(name))
        for name in named
    )


def _is_default(name: str, value: str | None) -> bool:
    return value is None or value.strip("'\" ").lower() == DEFAULTS[name]


REMEDIES = (
    # Remedies for what statements cost before and while they are executed.
    Remedy(
        id="jit-off",
        summary="execute statements without compiling them",
        kind="reload",
        durability_class="D0",
        price="long statements that compute much, as in reports, may take longer",
        settings=("jit",),
        when=lambda case: case.becomes(lambda server: not server.is_on("jit", default=True)),
    ),
    Remedy(
        id="plan-cache-mode",
        summary="plan prepared statements for the values of each execution, or once for any values",
        kind="reload",
        durability_class="D0",
        price=(
            "with force_custom_plan each execution is planned; with force_generic_plan the plan may"
            " be wrong for some values"
        ),
        settings=("plan_cache_mode",),
        when=lambda case: (case.after.settings.text("plan_cache_mode") or "auto") != "auto",
    ),
    Remedy(
        id="work-mem",
        summary="sort and hash more in memory before writing temporary files",
        kind="reload",
        durability_class="D0",
        price="up to that much memory for each sort and hash of each session at the same time",
        settings=("work_mem",),
        when=lambda case: not case.shrinks("work_mem", 4 << 20),
    ),
    Remedy(
        id="no-parallel-workers",
        summary="execute statements in their own process alone",
        kind="reload",
        durability_class="D0",
        price="long statements that read much, as in reports, take longer where cores are idle",
        settings=("max_parallel_workers_per_gather",),
        when=lambda case: case.after.settings.text("max_parallel_workers_per_gather") == "0",
    ),
    Remedy(
        id="prepared-statements",
        summary="parse and plan each statement once per session",
        kind="client",
        durability_class="D0",
        price=(
            "the application, and a pooler between, must keep prepared statements; a generic plan"
            " may be worse for some values"
        ),
        keys=("load.protocol", "front.prepare_threshold"),
        when=_prepared,
    ),
    Remedy(
        id="rewritten-batches",
        summary="let the driver insert several rows of a batch with one statement",
        kind="client",
        durability_class="D0",
        price=(
            "the application does not learn how many rows each statement of a batch inserted, and a"
            " row that fails takes those sent with it along"
        ),
        keys=("front.rewrite_batched_inserts",),
        when=_rewritten,
    ),
    # The remedy for a setting that costs more than it gives: its default. What another entry of the
    # catalogue has to say of a default (a checkpoint that comes later, another sync method) is
    # said there, and the class of the change is the worse of the two.
    Remedy(
        id="reset-setting",
        summary="put a setting back to PostgreSQL's default",
        kind="reload",
        durability_class="D0",
        price="what the setting was for",
        settings=tuple(sorted(DEFAULTS)),
        when=_resets,
    ),
)
