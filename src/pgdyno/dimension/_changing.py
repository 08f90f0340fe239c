"""Conversion of a change to a spec and to a title, and of a user's words to a change."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from pgdyno.dimension._dimension import Dimension, dimensions
from pgdyno.errors import UsageError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec, spec_from_fields


def spec_with(
    spec: Spec,
    change: Change,
    *,
    of: Iterable[Dimension] | None = None,
    where: str = "",
) -> Spec:
    """Return ``spec`` with ``change`` in it, or with its part in the dimensions ``of``.

    ``where`` begins the message of a UsageError, for a key that cannot differ and for a change that
    is not compatible with the spec.
    """
    if not change:
        return spec
    fields = _fields(spec)
    changed = fields_with(fields, change, of=of)
    return spec if changed == fields else spec_from_fields(changed, where=where)


def fields_with(
    spec: Spec | Fields,
    change: Change,
    *,
    of: Iterable[Dimension] | None = None,
) -> Fields:
    """Return the fields of ``spec``, or those of a run file, with ``change`` in them.

    Does not check whether they are compatible.
    """
    for key in change.spec:
        _check_key(key)
    changed = copy.deepcopy(_fields(spec))
    if not change:  # and so no dimension is asked, nor imported
        return changed
    for dimension in dimensions() if of is None else of:
        dimension.enter(changed, change)
    return changed


def title_of(change: Change, before: Spec | Fields | None = None) -> str:
    """Return the change in one line, as ``commit_delay = 100us`` or ``WAL on tmpfs:2GB``.

    ``before`` is the spec without the change, if known.
    """
    fields = None if before is None else _fields(before)
    return ", ".join(words for each in dimensions() for words in each.titles(change, fields))


def change_of(
    words: Mapping[str, str] | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    spec: Spec | None = None,
) -> Change:
    """Return the change that a user requests: ``settings`` of the server, ``keys`` of the spec,
    and ``words``, each of which is one or the other by its name.

    With the ``spec`` that the change applies to, values are checked, and keys that a running load
    can take become changes without a restart of the load. Raises :class:`UsageError`.
    """
    words = words or {}
    keys = {**(keys or {}), **{name: words[name] for name in words if is_key(name)}}
    settings = {**(settings or {}), **{name: words[name] for name in words if not is_key(name)}}
    for key in keys:
        _check_key(key)
    if spec is not None:
        spec_with(spec, Change(spec=keys))
    change = Change(settings=settings)
    for key, value in keys.items():
        read = (each.read(key, value, spec) for each in dimensions())
        change = next(part for part in read if part is not None).over(change)
    return change


def sides_of(keys: Mapping[str, str], spec: Spec) -> tuple[dict[str, str], dict[str, str]]:
    """Return the keys of the baseline and those of the changed side, from ``KEY=A,B`` and, for the
    changed side alone, ``KEY=B``. Where the spec can have ``A,B`` as one value, as for columns, it
    is that value."""
    two_sided = [each for each in dimensions() if each.two_sided]
    baseline, changed = {}, {}
    for key, value in keys.items():
        first, comma, second = (part.strip() for part in value.partition(","))
        sides = any(each.owns(key) for each in two_sided) or not _is_possible(spec, key, value)
        if comma and "," not in second and sides:
            baseline[key], changed[key] = first, second
        else:
            changed[key] = value
    return baseline, changed


def _is_possible(spec: Spec, key: str, value: str) -> bool:
    try:
        spec_with(spec, Change(spec={key: value}))
    except UsageError:
        return False
    return True


def is_key(name: str) -> bool:
    """True if a name is a dotted key of the spec; a setting's name may also have a dot
    (pg_stat_statements.track)."""
    table, dot, _ = name.partition(".")
    return bool(dot) and (table in Spec.model_fields or _is_owned(name))


def _is_owned(key: str) -> bool:
    return any(dimension.owns(key) for dimension in dimensions())


def _check_key(key: str) -> None:
    if not _is_owned(key):
        listed = ", ".join(each.keys for each in reversed(dimensions()) if each.keys)
        raise UsageError(
            f"{key}: not a key that can differ between slices",
            code="key-not-variable",
            hint=f"keys that can differ: {listed}; for example load.protocol=simple",
        )


def _fields(spec: Spec | Fields) -> Fields:
    if not isinstance(spec, Spec):
        return dict(spec)
    return spec.model_dump(mode="json", by_alias=True, exclude_none=True)
