"""Reading specs: TOML text or plain fields in, a validated :class:`Spec` or one clear error out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pgdyno.errors import UsageError
from pgdyno.files import read_at_most
from pgdyno.json_types import Fields
from pgdyno.spec._base import Misfit
from pgdyno.spec.model import Spec

SPEC_BYTES_MAX = 1 << 20
_MAX_ERRORS_SHOWN = 8
# The expected type, by pydantic's error type.
_EXPECTED = {
    "model_type": "a table",
    "dict_type": "a table",
    "list_type": "an array",
    "string_type": "a string",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
}


def read_spec(
    path: Path,
    overrides: Fields | None = None,
    group_overrides: Fields | None = None,
) -> tuple[Spec, str]:
    """Read the spec file ``path``, apply ``overrides``, and return the spec and the file's text.

    ``overrides`` has the structure of the TOML document, ``group_overrides`` that of the only
    client group. Raises :class:`UsageError` that names the file and the key.
    """
    fields, text = read_fields(path)
    return spec_over(fields, overrides, group_overrides, path=path), text


def read_fields(path: Path) -> tuple[Fields, str]:
    """Return the tables of the spec file ``path``, with file names resolved against its directory,
    and its text.

    Raises :class:`UsageError`.
    """
    import tomllib

    text = _read_text(path)
    try:
        fields = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(
            f"{path}: not valid TOML: {_without_stop(str(problem))}", code="spec-syntax"
        ) from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply", code="spec-syntax") from None
    fields.setdefault("name", _default_name(path))
    _resolve_files(fields, path.parent)
    return fields, text


def spec_over(
    fields: Fields,
    overrides: Fields | None,
    group_overrides: Fields | None,
    *,
    path: Path,
) -> Spec:
    """Return the spec of ``fields``, read from ``path``, with overrides as in :func:`read_spec`."""
    merged = merge(fields, overrides or {})
    if group_overrides:
        merged["clients"] = _over_only_group(merged.get("clients", [{}]), group_overrides, path)
    return spec_from_fields(merged, where=str(path))


def _resolve_files(fields: Fields, directory: Path) -> None:
    """Make names of scripts and of the setup file relative to the directory of the spec."""
    workload, groups = fields.get("workload"), fields.get("clients")
    tables = [workload, *(groups if isinstance(groups, list) else [])]
    for table in tables:
        scripts = table.get("script") if isinstance(table, dict) else None
        for script in scripts if isinstance(scripts, list) else []:
            _resolve(script, "file", directory)
    _resolve(workload, "setup", directory)


def _resolve(table: Any, key: str, directory: Path) -> None:
    if isinstance(table, dict) and isinstance(table.get(key), str):
        table[key] = str(directory / table[key])


def _over_only_group(groups: Any, overrides: Fields, path: Path) -> Any:
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        return groups  # the model reports the error
    if len(groups) != 1:
        raise UsageError(
            f"{path} has {len(groups)} client groups, so options for clients are ambiguous",
            code="ambiguous-group",
            hint="change the counts and pools in the file",
        )
    return [merge(groups[0], overrides)]


def spec_from_fields(
    fields: Fields, *, where: str = "", names: Mapping[str, str] | None = None
) -> Spec:
    """Return the validated spec of a TOML-shaped mapping.

    Error messages begin with ``where``, and name a key as ``names`` has it, such as the option that
    set it. Raises UsageError.
    """
    names = names or {}
    for key, text in _texts(fields):
        if problem := _text_error(text):
            raise UsageError(
                f"{where}{': ' if where else ''}{names.get(key, key)}: {problem}",
                code="spec-invalid",
            )
    try:
        return Spec.model_validate(fields)
    except ValidationError as problem:
        raise _usage_error(problem, where, names) from None


def _text_error(text: str) -> str:
    """Return why a server, a run file or a message cannot contain ``text``; '' if it can."""
    if "\0" in text:
        return "must not contain a zero byte"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "must be valid UTF-8"
    return ""


def merge(fields: Fields, overrides: Fields) -> Fields:
    """Return ``fields`` with ``overrides``, table by table; lists and scalars are replaced."""
    merged = dict(fields)
    for key, value in overrides.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def spec_to_toml(spec: Spec, *, defaults: bool = True) -> str:
    """Return the spec as a TOML document that ``read_spec`` accepts, without unset keys and, unless
    ``defaults``, without keys that have their default."""
    import tomli_w

    fields = spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=not defaults
    )
    fields["clients"] = [
        _without_none({"name": group.name, "count": group.count, **dumped})
        for group, dumped in zip(spec.clients, fields.get("clients", [{}]), strict=True)
    ]
    return tomli_w.dumps(fields, multiline_strings=True)


def spec_schema() -> Fields:
    """Return the JSON schema of a spec file."""
    schema = Spec.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "pgdyno spec"
    return schema


def _texts(fields: Any, loc: tuple[Any, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the dotted key and the text of every string in a TOML-shaped value."""
    if isinstance(fields, str):
        yield _dotted(loc), fields
    elif isinstance(fields, Mapping):
        for key, value in fields.items():
            yield from _texts(key, (*loc, key))
            yield from _texts(value, (*loc, key))
    elif isinstance(fields, list):
        for number, value in enumerate(fields):
            yield from _texts(value, (*loc, number))


def _without_none(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if value is not None}


def _read_text(path: Path) -> str:
    try:
        content = read_at_most(path, SPEC_BYTES_MAX)
        if len(content) > SPEC_BYTES_MAX:
            raise UsageError(f"{path}: not a spec: larger than 1 MiB", code="spec-unreadable")
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as problem:
        raise UsageError(
            f"{path}: {problem.strerror or problem}",
            code="spec-unreadable",
            hint="pgdyno demo --copy DIR copies example specs",
        ) from None
    except UnicodeDecodeError as problem:
        raise UsageError(
            f"{path}: not UTF-8 text (byte {problem.start})", code="spec-syntax"
        ) from None


def _default_name(path: Path) -> str:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in path.stem)
    return name.lstrip("._-") or "run"


def _usage_error(problem: ValidationError, where: str, names: Mapping[str, str]) -> UsageError:
    """Return one error with all of the spec's errors, the first ones in full."""
    errors = problem.errors(include_url=False)
    lines = [_line_for(error, names) for error in _one_per_key(errors)]
    prefix = f"{where}: " if where else ""
    if len(lines) > _MAX_ERRORS_SHOWN:
        rest = len(lines) - _MAX_ERRORS_SHOWN
        lines = [*lines[:_MAX_ERRORS_SHOWN], f"and {rest} more"]
    joiner = "\n  " if len(lines) > 1 else ""
    head = f"{len(errors)} errors in the spec" if len(lines) > 1 else ""
    message = prefix + head + joiner + ("\n  ".join(lines) if joiner else lines[0])
    hints = [hint for error in errors if (hint := _hint_for(error))]
    return UsageError(message, code="spec-invalid", hint=hints[0] if hints else None)


def _one_per_key(errors: list[Any]) -> list[Any]:
    """Return the first error of each key."""
    seen: set[str] = set()
    kept = []
    for error in errors:
        key = _dotted(error["loc"])
        if key not in seen:
            kept.append(error)
        seen.add(key)
    return kept


def _is_union_tag(part: Any) -> bool:
    """True if ``part`` is pydantic's tag of an alternative of a union."""
    return isinstance(part, str) and "[" in part


def _line_for(error: Any, names: Mapping[str, str]) -> str:
    table = _dotted(error["loc"])
    key = names.get(table, table)
    if error["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    if error["type"] == "missing":
        return f"{key}: missing"
    message = _without_stop(error["msg"]).removeprefix("Value error, ")
    if error["type"] in _EXPECTED:
        return f"{key}: expected {_EXPECTED[error['type']]}, not {_shown(error.get('input'))}"
    if error["type"] == "value_error":
        return _named(error["ctx"]["error"], table, names) or (
            f"{key}: {message}" if key else message
        )
    return f"{key}: {_shown(error.get('input'))}: {message[:1].lower()}{message[1:]}"


def _named(problem: ValueError, table: str, names: Mapping[str, str]) -> str | None:
    """Return the message of a misfit in ``table`` if one of its keys has another name."""
    if not isinstance(problem, Misfit):
        return None
    message = "".join(
        part if isinstance(part, str) else part.as_option(names.get(f"{table}.{part.name}"))
        for part in problem.parts
    )
    return None if message == str(problem) else message


def _shown(value: Any) -> str:
    """Format a rejected value, shortened for a message."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= 60 else text[:57] + "..."


def _dotted(loc: tuple[Any, ...]) -> str:
    """Return the dotted key of pydantic's location, such as ``clients[0].pool.max``."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif not _is_union_tag(part):
            text += f".{part}" if text else str(part)
    return text


def _hint_for(error: Any) -> str | None:
    if error["type"] != "extra_forbidden":
        return None
    known = _known_keys(error["loc"][:-1])
    close = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"known keys are {', '.join(known)}" if known else None


def _known_keys(loc: tuple[Any, ...]) -> list[str]:
    """Return the keys that the table at ``loc`` may have."""
    model: Any = Spec
    for part in loc:
        if isinstance(part, int) or _is_union_tag(part):
            continue
        by_key = {field.alias or name: field for name, field in model.model_fields.items()}
        if part not in by_key:
            return []
        model = _model_in(by_key[part].annotation)
        if model is None:
            return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside ``list[Model]`` or ``Model | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (model := _model_in(argument)) is not None:
            return model
    return None


def _without_stop(text: str) -> str:
    return text.strip().removesuffix(".")
