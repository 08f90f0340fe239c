"""Which change is in force, and the shortest way from it to another.

Only what differs is touched: a reload where that is enough, a restart where a dimension asks for
one, nothing where two slices in a row have the same. What each difference takes is known by its
dimension alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import psycopg

from pgdyno.conduct._load import RunningLoad
from pgdyno.conduct._target import Target
from pgdyno.dimension import Need, Place, Step, dimensions, spec_with
from pgdyno.dimension.kinds.settings import apply_event, session_statement
from pgdyno.record import Recorder
from pgdyno.spec import Change, Spec


class InForce:
    """The change in force, and the server's control connection."""

    def __init__(
        self, target: Target, recorder: Recorder, spec: Spec, note: Callable[[str], None]
    ) -> None:
        """``spec`` is what changes are against; ``note`` tells whoever watches."""
        self._target = target
        self._place = Place(spec, target, recorder, note)
        self.change = Change()

    def spec(self, change: Change | None = None) -> Spec:
        """The spec that a load begins with under ``change``, or else the change in force: without
        what it is told once it runs."""
        change = self.change if change is None else change
        at_first = [dimension for dimension in dimensions() if not dimension.live]
        return spec_with(self._place.base, change, of=at_first)

    def provide(self, change: Change, *, under_load: bool) -> None:
        """Get what ``change`` needs, so that what is missing fails now."""
        for dimension in dimensions():
            dimension.provide(change, self._place, under_load=under_load)

    def step_to(self, change: Change) -> Step:
        """What separates the change in force from ``change``."""
        step = Step(self.change, change, self.spec(), self.spec(change))
        needs = {each.id: each.needs(step, self._place) for each in dimensions()}
        return replace(step, needs={name: need for name, need in needs.items() if need})

    def apply(self, step: Step) -> None:
        """Carry out a step for which the server runs on; above a reload, no load may run."""
        for dimension in dimensions():
            if dimension.id in step.needs:
                dimension.apply(step, self._place)
        self.change = step.to

    def apply_with_restart(self, step: Step) -> None:
        """Carry out a step that needs the server restarted; no load may run meanwhile."""
        restarting = [d for d in dimensions() if step.needs.get(d.id) is Need.SERVER_RESTART]
        self._target.refuse_restart(name for each in restarting for name in each.names(step))
        self.apply(step)

        def change() -> None:
            for dimension in restarting:
                dimension.while_down(step, self._place)

        def take_out() -> None:
            for dimension in dimensions():
                if dimension.id in step.needs:
                    self.change = dimension.take_out(self.change, step, self._place)

        self._target.restart(change, take_out)

    def tell(self, load: RunningLoad, step: Step) -> None:
        """Tell the running load what it is told in words."""
        for dimension in dimensions():
            dimension.tell(step, load)

    def session_statement(self) -> str | None:
        """What the load's sessions execute to have their part of what is in force."""
        return session_statement(self.change, self._place)

    def apply_event(self, settings: Mapping[str, str]) -> None:
        """Change settings in the middle of a run and say so in the run file."""
        apply_event(settings, self._place)

    def checkpoint(self) -> None:
        """A CHECKPOINT, at once."""
        self._place.run_sql("checkpoint")

    def connect(self) -> psycopg.Connection:
        """A control connection in autocommit, beside the load."""
        return self._place.connect()
