"""All that receives the WAL of one primary: standbys and pg_receivewal, as a spec has them.

:meth:`Receivers.arrange` goes from one arrangement to another on a running primary, without a
restart: who is no longer wanted is paused rather than removed, so that it is quickly back. The mode
is in the primary's own configuration file, below what ALTER SYSTEM says, so that a trial of
``synchronous_commit`` still has the last word. While one is arranged, no commit waits for anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pgdyno.server.local.cluster import Cluster
from pgdyno.server.replication.receivewal import WalReceiver
from pgdyno.server.replication.standby import Standby
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec

STANDBY_NAME = "pgdyno_standby_{number}"
RECEIVEWAL_NAME = "pgdyno_receivewal"


class Receivers:
    """The standbys and the WAL receiver of ``primary``, none at first."""

    def __init__(self, primary: Cluster) -> None:
        self.primary = primary
        self.spec = StandbySpec()
        self.standbys: list[Standby] = []
        """Those that receive now."""
        self.wal_receiver: WalReceiver | None = None
        self._paused: list[Standby] = []

    def arrange(self, spec: StandbySpec, *, relayed: bool = False) -> None:
        """Have what ``spec`` says; returns when all of it streams and has caught up.

        ``relayed`` puts a relay before every standby even without a delay, so that it can be held.
        Raises SetupError when one cannot be made or does not catch up.
        """
        self.release_primary()
        relayed = relayed or spec.delay_ms > 0
        for standby in [*self.standbys, *self._paused]:
            if (standby.relay is not None) != relayed:
                self._remove(standby)
            elif standby.relay is not None:
                standby.relay.delay_ms = spec.delay_ms
        self._have_standbys(spec, relayed=relayed)
        self._have_wal_receiver(spec)
        for receiver in self.all():
            receiver.wait_caught_up()
        self.spec = spec
        self.primary.configure(self.mode_settings())

    def all(self) -> list[Standby | WalReceiver]:
        """Every receiver there is now."""
        return [*self.standbys, *([self.wal_receiver] if self.wal_receiver else [])]

    def mode_settings(self) -> dict[str, str]:
        """What the mode is in the primary's settings."""
        names = ", ".join(receiver.name for receiver in self.all())
        return self.spec.settings(names) if names else {}

    def wait_caught_up(self) -> None:
        """Wait until all have all that is written by now."""
        for receiver in self.all():
            receiver.wait_caught_up()

    def require(self, settings: Mapping[str, str]) -> None:
        """Before the primary restarts with ``settings``: standbys may not have less of some."""
        for standby in [*self.standbys, *self._paused]:
            standby.require(settings)

    def rebuild(self) -> None:
        """Make all anew from the running primary, which was put back to what it was before.

        Returns when all have caught up. Those that are paused are taken away.
        """
        self.release_primary()
        for standby in list(self._paused):
            self._remove(standby)
        for standby in self.standbys:
            standby.rebuild(fresh=True)
            standby.start()
        if self.wal_receiver is not None:
            self.wal_receiver.stop()
            self.wal_receiver.start()
        self.wait_caught_up()
        self.primary.configure(self.mode_settings())

    def release_primary(self) -> None:
        """Take the mode out of the primary's configuration, also of one that has ended.

        Who starts it next to look at what is left must not wait for standbys that are gone.
        """
        self.primary.configure(dict.fromkeys(MODE_SETTINGS))

    def facts(self) -> dict[str, Any]:
        """What there is, and how far it is behind, for the run file."""
        lags = {receiver.name: receiver.lag() for receiver in self.all()}
        return {
            **self.spec.model_dump(mode="json", by_alias=True),
            "settings": self.mode_settings(),
            "receivers": {name: asdict(lag) if lag else None for name, lag in lags.items()},
            "same_machine": True,
        }

    def close(self) -> None:
        """Take everything away. With the primary running, its slots too."""
        for standby in [*self.standbys, *self._paused]:
            self._remove(standby)
        if self.wal_receiver is not None:
            self.wal_receiver.destroy()
            self.wal_receiver = None

    def _have_standbys(self, spec: StandbySpec, *, relayed: bool) -> None:
        while len(self.standbys) > spec.count:
            standby = self.standbys.pop()
            self._paused.append(standby)
            standby.pause()
        while len(self.standbys) < spec.count:
            if self._paused:
                standby = self._paused.pop()
                standby.resume()
            else:
                standby = self._make(spec, relayed=relayed)
            self.standbys.append(standby)

    def _make(self, spec: StandbySpec, *, relayed: bool) -> Standby:
        taken = {standby.name for standby in self.standbys}
        names = (STANDBY_NAME.format(number=number) for number in range(1, spec.count + 1))
        name = next(name for name in names if name not in taken)
        standby = Standby.create(self.primary, name, relayed=relayed, delay_ms=spec.delay_ms)
        try:
            standby.start()
        except BaseException:
            standby.destroy()
            raise
        return standby

    def _have_wal_receiver(self, spec: StandbySpec) -> None:
        now = self.wal_receiver
        if now is not None and (not spec.receivewal or spec.delay_ms != self.spec.delay_ms):
            self.wal_receiver = None
            now.destroy()
        if spec.receivewal and self.wal_receiver is None:
            self.wal_receiver = WalReceiver(self.primary, RECEIVEWAL_NAME, delay_ms=spec.delay_ms)
            self.wal_receiver.start()

    def _remove(self, standby: Standby) -> None:
        for among in (self.standbys, self._paused):
            if standby in among:
                among.remove(standby)
        standby.destroy()
