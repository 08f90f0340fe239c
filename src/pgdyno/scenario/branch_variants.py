"""Needs of branches: a server that pgdyno starts, changes that fit, a disk that can clone."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.conduct import check_settings
from pgdyno.dimension import change_of, spec_with, title_of
from pgdyno.disk import can_make_xfs
from pgdyno.errors import UsageError
from pgdyno.server.directories import clusters_dir
from pgdyno.server.local.safefiles import can_clone
from pgdyno.spec import Change, Spec
from pgdyno.spec.branches import Branch

_WITH_THE_DATA = ("disk.", "standby.", "server.")
"""Beginnings of keys that are part of the state which all branches begin with."""


class BranchVariant(Struct, frozen=True):
    """A branch with its change of the spec."""

    branch: Branch
    change: Change
    title: str


def variants_of(spec: Spec) -> list[BranchVariant]:
    """Return the branches of a spec with their changes. Raises UsageError for a
    branch that cannot be measured."""
    if not spec.branches:
        raise UsageError(
            f"{spec.name} has no branches",
            code="no-branches",
            hint="a spec has [[branches]] tables, one for each variant, as in"
            " scenarios/freeze-branches.toml",
        )
    if spec.load.transactions is not None:
        raise UsageError(
            "load.transactions cannot be used with branches: they are measured for load.hold",
            code="contradiction",
            hint="remove it from the spec",
        )
    variants = [_variant(spec, branch) for branch in spec.branches]
    if settings := [branch.settings for branch in spec.branches if branch.settings]:
        check_settings(spec, *settings)
    return variants


def _variant(spec: Spec, branch: Branch) -> BranchVariant:
    for key in branch.vary:
        if key.startswith(_WITH_THE_DATA):
            raise UsageError(
                f"branch {branch.name}: {key} cannot differ between branches, which begin with the"
                " same data directory",
                code="branch-key",
                hint="set it in the spec, for all branches",
            )
    where = f"branch {branch.name}"
    if branch.match is not None and any(group.open_loop for group in spec.clients):
        raise UsageError(
            f"{where}: match needs closed loops, whose throughput is that of their clients",
            code="branch-match",
            hint='vary the rate instead, such as vary = { "clients.rate" = 200 }',
        )
    change = change_of(settings=branch.settings, keys=branch.vary)
    spec_with(spec, change, where=where)
    return BranchVariant(branch, change, title_of(change, spec))


def repeated(spec: Spec, *, before_ms: int | None, rounds: int | None) -> Spec:
    """Return the spec with the time before the state is saved and the rounds that are given."""
    given = {"before_ms": before_ms, "rounds": rounds}
    update = {name: value for name, value in given.items() if value is not None}
    return spec.model_copy(update={"branching": spec.branching.model_copy(update=update)})


def with_cloning_disk(spec: Spec) -> tuple[Spec, str]:
    """Return the spec with its data on a disk that can clone them, and a sentence if that is not
    where they would be otherwise. A disk that the user chose stays."""
    if "data" in spec.disk.model_fields_set:
        return spec, ""
    home = clusters_dir()
    if can_clone(home, home):
        return spec, ""
    if (lacking := can_make_xfs()) is not None:
        return spec, (
            f"the file system of {home} cannot clone files, and {lacking}: data are copied for each"
            " branch"
        )
    disk = spec.disk.model_copy(update={"data": "xfs"})
    return spec.model_copy(update={"disk": disk}), (
        f"the file system of {home} cannot clone files: data and WAL are on XFS in an image file"
        ' (disk.data = "plain" copies them instead)'
    )
