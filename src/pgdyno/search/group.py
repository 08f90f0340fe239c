"""Before a search: the client group that is varied, and tables for its clients."""

from __future__ import annotations

from pgdyno.errors import UsageError
from pgdyno.spec import ClientGroup, Spec
from pgdyno.spec.model import SCALE_DEFAULT_MAX


def chosen_group(spec: Spec, group: str | None) -> ClientGroup:
    """Return the group that is varied. Raises UsageError where it is not known, or cannot be."""
    active = [each for each in spec.clients if not each.idle]
    names = ", ".join(each.name for each in active)
    if group is None and len(active) > 1:
        raise UsageError(
            f"the spec has {len(active)} client groups, and one of them is varied: {names}",
            code="group-missing",
            hint=f"--group {active[0].name}; the others remain as they are",
        )
    chosen = next((each for each in active if group in (None, each.name)), None)
    if chosen is None:
        raise UsageError(
            f'--group {group}: the spec has no client group "{group}" that sends transactions',
            code="unknown-group",
            hint=f"its groups are {names}",
        )
    return chosen


def with_scale(spec: Spec, clients: int) -> Spec:
    """Return the spec with tables for so many clients, unless their scale is given."""
    if spec.workload.scale_given or spec.http is not None:
        return spec
    workload = spec.workload.model_copy(update={"scale": min(clients, SCALE_DEFAULT_MAX)})
    workload.model_fields_set.discard("scale")
    return spec.model_copy(update={"workload": workload})
