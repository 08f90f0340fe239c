"""The check of a profile against a server, before anything is measured.

It finds at once every line that cannot be used: unknown there, refused, contradicting another one,
above the durability limit, beyond the machine's means; and names lines without effect. Lines that
are in force already are no part of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from pgdyno.compare._profile_rules import REFUSED_TOGETHER, WITHOUT_EFFECT, Values, names_read
from pgdyno.compare.profile_file import NumberedSetting, Problem, Profile
from pgdyno.conduct import Target
from pgdyno.errors import UsageError
from pgdyno.probe import host_facts
from pgdyno.probe.space import sample_space
from pgdyno.remedy import Assessment, Circumstances, assess, circumstances
from pgdyno.server import Setting
from pgdyno.server.local.startup import check_before_start
from pgdyno.server.settings.setting_values import same_value, unquoted_list
from pgdyno.spec import Change, Spec
from pgdyno.spec.durability import DurabilityClass, within
from pgdyno.spec.units import format_size

_OF_THE_MACHINE = (
    *("shared_buffers", "work_mem", "max_connections", "max_wal_size", "synchronous_standby_names"),
    *("superuser_reserved_connections", "wal_level"),
)
_SHOWN_MAX = 40


class Checked(Struct, frozen=True):
    """A profile that a server takes."""

    profile: Profile
    """Its lines that are applied."""
    assessments: Mapping[str, Assessment]
    """Setting → the possible loss by its line beside the other lines."""
    restarts: frozenset[str]
    """Settings that take effect only after a restart."""
    left_out: tuple[Problem, ...] = ()
    """Lines of a profile of pgdyno's that this server cannot have."""
    in_force: tuple[NumberedSetting, ...] = ()
    """Lines whose value was in force without the profile."""
    remarks: tuple[Problem, ...] = ()
    """Lines without effect, and others that deserve a look."""

    @property
    def change(self) -> Change:
        """The profile as a change."""
        return Change(settings=self.profile.settings)

    def notes(self) -> Iterator[str]:
        """Yield the notes to print before the measurement."""
        name = self.profile.name
        if self.left_out:
            yield f"{name}: left out here: {'; '.join(map(str, self.left_out))}"
        if self.remarks:
            yield f"{name}: {'; '.join(map(str, self.remarks))}"


@dataclass
class ProfileCheck:
    """Checks a profile as soon as the server is there."""

    profile: Profile
    spec: Spec
    allow: DurabilityClass | None
    """The durability limit; None: D0 on a server that pgdyno did not start, else none."""
    _checked: Checked | None = field(init=False, default=None)

    @property
    def checked(self) -> Checked:
        """The profile, after :meth:`ready`."""
        assert self._checked is not None
        return self._checked

    def ready(self, target: Target) -> None:
        """Check the profile against a server. Raises UsageError with everything that is wrong."""
        self._checked = check_profile(self.profile, target, self.spec, self.allow)


def check_profile(
    profile: Profile, target: Target, spec: Spec, allow: DurabilityClass | None
) -> Checked:
    """Return the lines of a profile to apply. Raises UsageError with everything that is wrong."""
    if profile.of_machine and not target.facts["is_local"]:
        raise UsageError(
            f"the profile {profile.name} is computed from the server's machine, which is not this"
            " one",
            code="profile-elsewhere",
            hint="pgdyno compare --show-profile prints it where the server is; give that file",
        )
    found = target.settings.find({*profile.settings, *names_read(), *_OF_THE_MACHINE})
    refused = [*profile.problems, *_refused(profile, target)]
    bad = {each.number for each in refused}
    sound = profile.without(line.setting for line in profile.lines if line.number in bad)
    values = Values(found, sound.settings)
    beyond = [*_together(sound, values), *_beyond_means(sound, values, target, spec)]
    if profile.adapts:
        gone = {each.number for each in beyond}
        sound = sound.without(line.setting for line in sound.lines if line.number in gone)
        values = Values(found, sound.settings)
    undefined = [line for line in sound.lines if line.setting not in found]
    found |= target.settings.describe(line.setting for line in undefined)
    in_force = _in_force(sound, found)
    kept = sound.without(line.setting for line in in_force)
    server = circumstances(spec, target.facts["settings"])
    assessed = assessments(kept, server)
    limit = allow or (None if target.ours else "D0")
    dangerous = [*_above(kept, assessed, limit)]
    remarks = [
        *profile.repeated,
        *_remarks(sound, values, target),
        *_of_nobody(undefined, sound),
    ]
    fatal = dangerous if profile.adapts else [*refused, *beyond, *dangerous]
    if fatal:
        raise _unusable(profile, fatal, remarks)
    if not kept.lines:
        raise UsageError(
            f"the profile {profile.name} changes nothing here: every line is in force already",
            code="profile-empty",
        )
    return Checked(
        profile=kept,
        assessments=assessed,
        restarts=frozenset(name for name in kept.settings if found[name].context == "postmaster"),
        left_out=tuple(sorted((*refused, *beyond), key=lambda each: each.number)),
        in_force=tuple(in_force),
        remarks=tuple(sorted(remarks, key=lambda each: each.number)),
    )


def _unusable(
    profile: Profile, problems: Sequence[Problem], remarks: Sequence[Problem]
) -> UsageError:
    """Return the error with all problems by line, and with the remarks that go with them."""
    fatal = sorted(problems, key=lambda each: each.number)
    lines = [str(each) for each in fatal[:_SHOWN_MAX]]
    if len(fatal) > _SHOWN_MAX:
        lines.append(f"and {len(fatal) - _SHOWN_MAX} more")
    if remarks:
        lines.append("and, which would not prevent a measurement:")
        lines += [str(each) for each in sorted(remarks, key=lambda each: each.number)[:_SHOWN_MAX]]
    many = f"{len(fatal)} problems" if len(fatal) > 1 else "a problem"
    return UsageError(
        "\n  ".join([f"the profile {profile.name} has {many}", *lines]),
        code="profile-unusable",
        hint="take these lines out, or correct them",
    )


def assessments(profile: Profile, server: Circumstances) -> dict[str, Assessment]:
    """Return the possible loss by each line on ``server`` with the other lines in force: that by
    synchronous_commit = off depends on the line for wal_writer_delay."""
    settings = profile.settings
    return {
        name: assess(
            Change(settings={name: value}),
            server.under(Change(settings={n: v for n, v in settings.items() if n != name})),
        )
        for name, value in settings.items()
    }


def _refused(profile: Profile, target: Target) -> Iterator[Problem]:
    """Yield the lines that the server would reject by themselves."""
    rejected = target.settings.rejections(profile.settings)
    sound = {n: v for n, v in profile.settings.items() if n not in rejected}
    rejected |= _refused_at_start(target, sound)
    later = {*target.settings.needs_restart(sound)} if not target.ours else set()
    for line in profile.lines:
        error = rejected.get(line.setting)
        if error is not None:
            yield Problem(line.number, error.message, error.hint)
        elif line.setting in later:
            why = "takes effect only after a restart, and pgdyno does not restart your server"
            yield Problem(line.number, f"{line.setting}: {why}")


def _refused_at_start(target: Target, settings: Mapping[str, str]) -> dict[str, UsageError]:
    """Return the errors of the build itself, which also checks texts that no session may set."""
    if target.cluster is None:
        return {}
    installation = target.cluster.installation
    try:
        check_before_start(installation, settings)
    except UsageError:
        return dict(_each_refused(target, settings))
    return {}


def _each_refused(target: Target, settings: Mapping[str, str]) -> Iterator[tuple[str, UsageError]]:
    assert target.cluster is not None
    for name, value in settings.items():
        try:
            check_before_start(target.cluster.installation, {name: value})
        except UsageError as error:
            yield name, error


def _together(profile: Profile, values: Values) -> Iterator[Problem]:
    """Yield the lines with which together a server does not start."""
    for rule in REFUSED_TOGETHER:
        lines = [line for line in profile.lines if rule.about(line.setting)]
        if lines and rule.holds(values):
            yield Problem(lines[0].number, f"{lines[0]}: {rule.sentence}")


def _beyond_means(
    profile: Profile, values: Values, target: Target, spec: Spec
) -> Iterator[Problem]:
    """Yield the lines that this machine, or this load, cannot have."""
    if (line := profile.of("shared_buffers")) and target.facts["is_local"]:
        memory, wanted = _memory_bytes(target), values.size_bytes("shared_buffers")
        if wanted is not None and wanted > 0.9 * memory:
            yield Problem(line.number, f"{line}: this machine has {format_size(memory)} of memory")
    if (line := profile.of("max_connections")) and not spec.pooler.in_use:
        wanted = sum(group.connections_max for group in spec.clients)
        room = (values.number("max_connections") or 0) - (
            values.number("superuser_reserved_connections") or 0
        )
        if wanted > room:
            yield Problem(line.number, f"{line}: the load has {wanted:,} connections of its own")
    minimal = values.word("wal_level") == "minimal"
    if (line := profile.of("wal_level")) and spec.standby.count and minimal:
        yield Problem(line.number, f"{line}: the standby of the spec needs replica")
    if (line := profile.of("synchronous_standby_names")) and not spec.standby.count:
        waits = values.word("synchronous_commit") not in ("off", "local")
        if line.value and waits and target.ours:
            yield Problem(line.number, f"{line}: without a standby every commit waits for ever")


def _memory_bytes(target: Target) -> int:
    """Return the memory that the server may use, in whole megabytes."""
    bytes_ = host_facts(None, pid=target.facts["postmaster_pid"])["memory_bytes"]
    return bytes_ >> 20 << 20


def _remarks(profile: Profile, values: Values, target: Target) -> Iterator[Problem]:
    """Yield the remarks about lines that can be applied."""
    for line in profile.lines:
        for rule in WITHOUT_EFFECT:
            if rule.about(line.setting) and rule.holds(values):
                yield Problem(line.number, f"{line}: {rule.sentence}")
                break
    yield from _about_the_machine(profile, values, target)


def _of_nobody(undefined: Iterable[NumberedSetting], profile: Profile) -> Iterator[Problem]:
    """Yield the lines that no library defines, of those that the profile loads either."""
    libraries = {
        each
        for name in ("shared", "session", "local")
        if (line := profile.of(f"{name}_preload_libraries"))
        for each in unquoted_list(line.value).split(",")
    }
    for line in undefined:
        if line.setting.partition(".")[0] not in libraries:
            yield Problem(
                line.number,
                f"{line}: no library that is loaded has this setting; the server keeps the text,"
                " which only an application would read",
            )


def _about_the_machine(profile: Profile, values: Values, target: Target) -> Iterator[Problem]:
    if not target.facts["is_local"]:
        return
    if line := profile.of("max_wal_size"):
        wanted, free = values.size_bytes("max_wal_size"), _wal_space_bytes(target)
        if wanted is not None and free is not None and wanted > free:
            said = f"the disk of the WAL has room for {format_size(free)}, and may fill"
            yield Problem(line.number, f"{line}: {said}")
    if line := profile.of("work_mem"):
        each, sessions = values.size_bytes("work_mem"), values.number("max_connections")
        memory = _memory_bytes(target)
        if each and sessions and each * sessions > memory:
            said = (
                f"with one sort in each of {sessions:,.0f} sessions it is more than the"
                f" {format_size(memory)} of memory"
            )
            yield Problem(line.number, f"{line}: {said}")


def _wal_space_bytes(target: Target) -> int | None:
    """Return the space that the WAL has on its disk, in whole megabytes; None if not known."""
    if target.data_dir is None:
        return None
    try:
        disks = sample_space(target.data_dir)
    except OSError:
        return None
    space = (d.free_bytes + d.wal_dir_bytes for d in disks if d.wal_dir_bytes is not None)
    found = next(space, None)
    return None if found is None else found >> 20 << 20


def _in_force(profile: Profile, found: Mapping[str, Setting]) -> list[NumberedSetting]:
    return [line for line in profile.lines if same_value(found[line.setting], line.value)]


def _above(
    profile: Profile, assessed: Mapping[str, Assessment], limit: DurabilityClass | None
) -> Iterator[Problem]:
    """Yield the lines above the durability limit."""
    for line in profile.lines:
        each = assessed[line.setting]
        if limit is not None and not within(each.durability_class, limit):
            needed = "D3" if each.durability_class == "unknown" else each.durability_class
            yield Problem(
                line.number,
                f"{line} is above the durability limit {limit}: {each.durability_class},"
                f" {each.bound}",
                f"--allow {needed}",
            )


def units_of(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the settings in the order given, those together with which a server may not start
    without each other as one unit: they are taken back together."""
    units: list[tuple[str, ...]] = []
    names = [*names]
    for name in names:
        if any(name in unit for unit in units):
            continue
        tied = {name}
        for rule in REFUSED_TOGETHER:
            if tied & {*rule.settings}:
                tied |= {*rule.settings}
        units.append(tuple(each for each in names if each in tied))
    return units
