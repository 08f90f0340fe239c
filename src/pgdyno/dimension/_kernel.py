"""The base of dimensions that are parameters of the machine's kernel: keys ``kernel.…``.

They hold for all programs of the machine, and are put back at the end of the run (see ``kernel/``).
On the machine of a user's server they change only with ``--apply``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdyno.dimension._dimension import Context, KeyDimension, Need, Transition
from pgdyno.errors import SetupError
from pgdyno.json_types import Fields
from pgdyno.spec import Change, Spec

if TYPE_CHECKING:
    from pgdyno.kernel import Parameter

VM = "/proc/sys/vm"


class KernelDimension(KeyDimension):
    """Dimension of one key of the table ``kernel``."""

    words: str
    """Words for the parameter, in titles."""
    need = Need.RELOAD
    """Action that it takes to have its effect on the server."""

    @property
    def field(self) -> str:
        """The key within the table."""
        return self.key.removeprefix("kernel.")

    def titles(self, change: Change, before: Fields | None) -> Iterable[str]:
        """Return titles such as ``read-ahead = 4MB``."""
        return [f"{self.words} = {value}" for value in self.mine(change).values()]

    def parameter(self, context: Context) -> Parameter:
        """Return the parameter on this machine. Raises SetupError if there is none."""
        raise NotImplementedError

    def value(self, wanted: Any) -> str:
        """Return the parameter's value for that of the spec."""
        return str(wanted)

    def check(self, context: Context, value: str) -> None:
        """Raise SetupError for a value that would harm this machine as it is."""

    def provide(self, change: Change, context: Context, *, under_load: bool) -> None:
        """Raise SetupError for a parameter that this process may not change."""
        from pgdyno.kernel import check_changeable

        if self.mine(change):
            self._refuse_elsewhere(context)
            check_changeable(self.parameter(context), self.key)

    def needs(self, transition: Transition, context: Context) -> Need:
        """Return its need if the parameter is to differ from what the run has made it."""
        same = self._wanted(transition.spec_after) == context.remembered.get(self.id)
        return Need.NOTHING if same else self.need

    def names(self, transition: Transition) -> list[str]:
        """Return the key."""
        return [self.key]

    def apply(self, transition: Transition, context: Context) -> None:
        """Set it, unless that is for the time when the server is down."""
        if transition.needs[self.id] is not Need.SERVER_RESTART:
            self._set(transition.spec_after, context)

    def while_down(self, transition: Transition, context: Context) -> None:
        """Set it."""
        self._set(transition.spec_after, context)

    def revert(self, change: Change, transition: Transition, context: Context) -> Change:
        """Set it as it was before the transition."""
        self._set(transition.spec_before, context)
        before = self.mine(transition.before)
        others = {key: value for key, value in change.spec.items() if not self.owns(key)}
        return replace(change, spec={**others, **before})

    def _wanted(self, spec: Spec) -> Any:
        return getattr(spec.kernel, self.field)

    def _set(self, spec: Spec, context: Context) -> None:
        self._refuse_elsewhere(context)
        parameter, wanted = self.parameter(context), self._wanted(spec)
        if wanted is None:
            context.server.kernel.reset(parameter, self.key)
        else:
            self.check(context, self.value(wanted))
            context.server.kernel.set(parameter, self.value(wanted), self.key)
        context.remembered[self.id] = wanted

    def _refuse_elsewhere(self, context: Context) -> None:
        if not context.server.facts.get("is_local"):
            raise SetupError(
                f"{self.key}: the server is on another machine, whose kernel pgdyno cannot change",
                code="kernel-elsewhere",
                hint="run pgdyno there, as root",
            )
        context.server.settings.require_apply([self.key])


class KernelLimit(KernelDimension):
    """Dimension of a limit that is a percentage of memory or a size."""

    def value(self, wanted: Any) -> str:
        """Return a percentage or bytes."""
        from pgdyno.spec.kernel import share_or_bytes

        share, size = share_or_bytes(wanted)
        return f"{share}%" if share else str(size)


def begin_kernel(spec: Spec) -> Transition | None:
    """Return the transition to the kernel's parameters of a spec; None if it has none."""
    from pgdyno.spec.kernel import KernelSpec

    if spec.kernel == KernelSpec.default():
        return None
    bare = spec.model_copy(update={"kernel": KernelSpec.default()})
    return Transition(Change(), Change(), bare, spec)
