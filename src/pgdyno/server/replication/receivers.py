"""The standbys and pg_receivewal of one primary, as a spec describes them.

:meth:`Receivers.arrange` changes them while the primary runs. A standby that is not needed is
paused rather than removed, so that it can resume quickly. The replication mode is set in the
primary's configuration file, which ALTER SYSTEM overrides, so that a trial of
``synchronous_commit`` takes precedence. During the change, commits wait for no standby.

If a manager runs the servers (``patroni.py``), they are made without it and handed to it. It ends
when the primary is stopped, and :meth:`Receivers.wait_caught_up` starts it again.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import asdict

from pgdyno.server.local.cluster import Cluster
from pgdyno.server.replication.patroni import Patroni
from pgdyno.server.replication.receivewal import WalReceiver
from pgdyno.server.replication.standby import Standby
from pgdyno.spec.standby import MODE_SETTINGS, StandbySpec

STANDBY_NAME = "pgdyno_standby_{number}"
RECEIVEWAL_NAME = "pgdyno_receivewal"


class Receivers:
    """The standbys and the WAL receiver of ``primary``; none at first."""

    def __init__(self, primary: Cluster) -> None:
        self.primary = primary
        self.spec = StandbySpec.default()
        self.standbys: list[Standby] = []
        """Standbys that are running."""
        self.wal_receiver: WalReceiver | None = None
        self.manager: Patroni | None = None
        """The manager that runs the servers, if there is one; it may have ended."""
        self._paused: list[Standby] = []
        self._relayed = False

    def arrange(self, spec: StandbySpec, *, relayed: bool = False) -> None:
        """Create or pause receivers as ``spec`` says; return when all stream and have caught up.

        ``relayed`` connects every standby through a relay even without a delay, so that its link
        can be held. Raises SetupError when one cannot be created or does not catch up.
        """
        self._end_manager()
        self.release_primary()
        self._relayed = relayed
        if spec.managed:
            self._arrange_managed(spec)
            return
        relayed = relayed or spec.delay_ms > 0
        for standby in [*self.standbys, *self._paused]:
            if (standby.relay is not None) != relayed:
                self._remove(standby)
            elif standby.relay is not None:
                standby.relay.delay_ms = spec.delay_ms
        self._arrange_standbys(spec, relayed=relayed)
        self._arrange_wal_receiver(spec)
        for receiver in self.all():
            receiver.wait_caught_up()
        self.spec = spec
        self.primary.configure(self.mode_settings())

    def all(self) -> list[Standby | WalReceiver]:
        """Return all running receivers."""
        return [*self.standbys, *([self.wal_receiver] if self.wal_receiver else [])]

    def mode_settings(self) -> dict[str, str]:
        """Return the primary's settings for the replication mode."""
        if self.manager is not None:
            return self.manager.mode_settings()
        names = ", ".join(receiver.name for receiver in self.all())
        return self.spec.settings(names) if names else {}

    def wait_caught_up(self) -> None:
        """Wait until all receivers have caught up; start a manager that has ended."""
        if self.spec.managed and (self.manager is None or not self.manager.running):
            self._begin_manager()
        for receiver in self.all():
            receiver.wait_caught_up()

    def raise_minimums(self, settings: Mapping[str, str]) -> None:
        """Raise the standbys' settings to those with which the primary will restart.

        A manager gives them the primary's when it is started again.
        """
        if self.spec.managed:
            return
        for standby in [*self.standbys, *self._paused]:
            standby.raise_minimums(settings)

    def rebuild(self) -> None:
        """Rebuild all receivers from the running primary, whose data was restored to a past state.

        Returns when all have caught up. Paused standbys are removed.
        """
        self.release_primary()
        for standby in list(self._paused):
            self._remove(standby)
        for standby in self.standbys:
            standby.rebuild(fresh=True)
            if not self.spec.managed:
                standby.start()
        if self.wal_receiver is not None:
            self.wal_receiver.stop()
            self.wal_receiver.start()
        self.wait_caught_up()
        if not self.spec.managed:
            self.primary.configure(self.mode_settings())

    def release_primary(self) -> None:
        """Remove the replication mode from the primary's configuration, running or not.

        Commits after its next start must not wait for standbys that no longer exist.
        """
        self.primary.configure(dict.fromkeys(MODE_SETTINGS))

    def facts(self) -> dict[str, object]:
        """Return the receivers and their lag, for the run file."""
        lags = {receiver.name: receiver.lag() for receiver in self.all()}
        return {
            **self.spec.model_dump(mode="json", by_alias=True),
            "settings": self.mode_settings(),
            **({} if self.manager is None else {"manager_store": self.manager.store_name}),
            "receivers": {name: asdict(lag) if lag else None for name, lag in lags.items()},
            "same_machine": True,
        }

    def close(self) -> None:
        """Remove all receivers, and their slots if the primary runs."""
        if self.manager is not None:
            self.manager.close()
            self.manager = None
        for standby in [*self.standbys, *self._paused]:
            self._remove(standby)
        if self.wal_receiver is not None:
            self.wal_receiver.destroy()
            self.wal_receiver = None

    def check(self) -> None:
        """Raise RunError if a part of the manager has ended by itself."""
        if self.manager is not None:
            self.manager.check()

    def log(self) -> str:
        """Return the manager's log; '' without one."""
        return "" if self.manager is None else self.manager.log()

    def _arrange_managed(self, spec: StandbySpec) -> None:
        """Make the standbys anew, and start the manager."""
        self.spec = StandbySpec.default()
        for receiver in [*self.standbys, *self._paused]:
            self._remove(receiver)
        self._arrange_wal_receiver(StandbySpec.default())
        for number in range(1, spec.count + 1):
            name = STANDBY_NAME.format(number=number)
            self.standbys.append(Standby.create(self.primary, name))
        self.spec = spec
        self._begin_manager()
        self.wait_caught_up()

    def _begin_manager(self) -> None:
        self.manager = Patroni(self.spec, self.primary, self.standbys, relayed=self._relayed)

    def _end_manager(self) -> None:
        """End the manager, and start the primary without it."""
        manager, self.manager = self.manager, None
        if manager is None:
            return
        running = manager.running
        manager.close()
        for standby in list(self.standbys):
            self._remove(standby)
        if running:
            self.primary.start()

    def _arrange_standbys(self, spec: StandbySpec, *, relayed: bool) -> None:
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

    def _arrange_wal_receiver(self, spec: StandbySpec) -> None:
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
