"""The active change, and the shortest way from it to another.

Only the differences are applied: by a reload where that is enough, by a restart where a dimension
requires it, and not at all where two consecutive slices have the same change. Each dimension alone
decides what its own difference needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from pgdyno.conduct._load import RunningLoad
from pgdyno.conduct._maintenance import prewarm, settle
from pgdyno.conduct._target import Target
from pgdyno.dimension import Context, Need, Transition, begin_kernel, dimensions, spec_with
from pgdyno.dimension.kinds.settings import apply_event, session_statement
from pgdyno.record import Recorder
from pgdyno.server.connecting.control import Control
from pgdyno.spec import Change, Spec
from pgdyno.spec.debt import Debt


class ActiveChange:
    """The active change, and the server's control connection."""

    def __init__(
        self, target: Target, recorder: Recorder, spec: Spec, note: Callable[[str], None]
    ) -> None:
        """Start without a change from ``spec``; ``note`` shows a message to the user."""
        self._target = target
        self._context = Context(spec, target, recorder, note)
        self.change = Change()

    def begin(self) -> None:
        """Set the kernel's parameters of the spec, before any load. Raises PgdynoError."""
        if (transition := begin_kernel(self._context.base)) is None:
            return
        needs = {each.id: each.needs(transition, self._context) for each in dimensions()}
        transition = replace(transition, needs={name: n for name, n in needs.items() if n})
        if transition.need is Need.SERVER_RESTART:
            self.apply_with_restart(transition)
        else:
            self.apply(transition)

    def spec(self, change: Change | None = None) -> Spec:
        """Return the spec that a load begins with under ``change`` (by default the active one),
        without what is sent to the load once it runs."""
        change = self.change if change is None else change
        at_first = [dimension for dimension in dimensions() if not dimension.live]
        return spec_with(self._context.base, change, of=at_first)

    def provide(self, change: Change, *, under_load: bool) -> None:
        """Get what ``change`` needs, so that anything missing fails now."""
        for dimension in dimensions():
            dimension.provide(change, self._context, under_load=under_load)

    def transition_to(self, change: Change) -> Transition:
        """Return the transition from the active change to ``change``."""
        transition = Transition(self.change, change, self.spec(), self.spec(change))
        needs = {each.id: each.needs(transition, self._context) for each in dimensions()}
        return replace(transition, needs={name: need for name, need in needs.items() if need})

    def apply(self, transition: Transition) -> None:
        """Carry out a transition while the server runs. If it needs more than a reload, no load may
        run."""
        for dimension in dimensions():
            if dimension.id in transition.needs:
                dimension.apply(transition, self._context)
        self.change = transition.after

    def apply_with_restart(self, transition: Transition) -> None:
        """Carry out a transition that needs a server restart; no load may run meanwhile."""
        restarting = [d for d in dimensions() if transition.needs.get(d.id) is Need.SERVER_RESTART]
        self._target.refuse_restart(name for each in restarting for name in each.names(transition))
        self.apply(transition)

        def change() -> None:
            for dimension in restarting:
                dimension.while_down(transition, self._context)

        def revert() -> None:
            for dimension in dimensions():
                if dimension.id in transition.needs:
                    self.change = dimension.revert(self.change, transition, self._context)

        self._target.restart(change, revert)

    def adjust_load(self, load: RunningLoad, transition: Transition) -> None:
        """Send the running load its part of the transition."""
        for dimension in dimensions():
            dimension.adjust_load(transition, load)

    def session_statement(self) -> str | None:
        """Return the statement that applies the active settings to the load's sessions."""
        return session_statement(self.change, self._context)

    def apply_event(self, settings: Mapping[str, str]) -> None:
        """Change settings in the middle of a run, and record it in the run file."""
        apply_event(settings, self._context)

    def settle(self, debt: Debt) -> None:
        """Do work that was postponed, now. A server of the user is never vacuumed."""
        if debt == "vacuum" and not self._target.ours:
            return
        with self._context.connect() as connection:
            settle(debt, connection, self._context.recorder)

    def prewarm(self) -> bool:
        """Read the data into the buffers of a server that pgdyno restarted; False if that takes too
        long."""
        with self._context.connect() as connection:
            return prewarm(connection, self._context.recorder)

    def connect(self) -> Control:
        """Open a control connection in autocommit mode, outside the load."""
        return self._context.connect()
