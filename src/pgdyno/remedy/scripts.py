"""Changes of the application, tried with the scripts of the load."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="update-last",
        summary="update a row that many wait for last in the transaction",
        kind="client",
        durability_class="D0",
        price=(
            "the application must be changed, for which a trial changes the load's scripts;"
            " transactions that keep the former order may run into deadlocks with those that do not"
        ),
        keys=("workload.update_last",),
        manual_lines=(
            "-- in the application: update the row just before COMMIT, after all other statements",
        ),
    ),
    Remedy(
        id="ingest",
        summary="bring rows in by another way, or commit more of them at a time",
        kind="client",
        durability_class="D0",
        bound="nothing is lost; what was not acknowledged must be sent again, a whole batch",
        price=(
            "rows become visible with their batch, and a row that fails takes its batch with it;"
            " where commits may be lost (synchronous_commit = off), each is a batch of rows"
        ),
        keys=("workload.ingest", "workload.batch"),
        manual_lines=("-- in the application: multi-row INSERT, a pipeline, or COPY",),
    ),
)
