"""The load as it is: the slice before the trials, and the spec's ramp before and after them."""

from __future__ import annotations

from msgspec import Struct

from pgdyno.conduct import Session
from pgdyno.errors import TrustError
from pgdyno.record import SliceKind
from pgdyno.spec import Change
from pgdyno.trial.noise import WARM_UP_SECONDS

_TRIES = 3
CURVE_S_MIN = 10.0
"""A shorter ramp only spares the server; it has too few seconds for a curve by clients."""


class Baseline(Struct, frozen=True):
    """The measurement of the load as it is."""

    session: Session
    seconds: float
    """Length of its slice."""

    def measure(self) -> list[int]:
        """Start the load and measure it; return the slices. Raises TrustError if they are void."""
        session = self.session
        ramp_s = session.spec.load.ramp_ms / 1000
        if self._has_curve and session.target.application is not None:
            # Compiling takes cores, which the few clients of a ramp's beginning would lack.
            session.watcher.phase("warming up the web front end")
            session.start_load()
            session.wait_connected()
            session.interrupt_load()
        session.start_load(scheduled=ramp_s > 0)
        if ramp_s:
            self._ramp(ramp_s)
        else:
            session.watcher.phase("warming up")
            session.wait_connected()
            session.wait(WARM_UP_SECONDS)
        session.watcher.phase("measuring the baseline")
        return [self._slice()]

    def ramp_again(self, state: Change) -> None:
        """Measure the spec's ramp with everything kept, ``state``: the page then has curves by
        clients before and after."""
        if not self._has_curve or not state or state.clients:
            return
        self.session.start_again(state)
        self._ramp(self.session.spec.load.ramp_ms / 1000)

    @property
    def _has_curve(self) -> bool:
        """True if the spec's ramp is long enough for a curve of throughput by clients."""
        load, groups = self.session.spec.load, self.session.spec.clients
        return load.ramp_ms >= 1000 * CURVE_S_MIN and not any(each.open_loop for each in groups)

    def _ramp(self, seconds: float) -> None:
        """Measure a ramp that has just begun."""
        self.session.watcher.phase(f"ramping up over {seconds:g} s")
        with self.session.measured(SliceKind.RAMP):
            self.session.wait(seconds)

    def _slice(self) -> int:
        """Measure a slice of the baseline that is not void; return its id. Raises TrustError."""
        voids = []
        for _ in range(_TRIES):
            slice_id = self.session.slice(self.seconds, kind=SliceKind.BASELINE)
            why = self.session.reader().slice(slice_id).void
            if why is None:
                return slice_id
            voids.append(why)
            self.session.wait_served()
        raise TrustError(
            f"the baseline could not be measured: {'; '.join(dict.fromkeys(voids))}",
            code="void-slices",
        )
