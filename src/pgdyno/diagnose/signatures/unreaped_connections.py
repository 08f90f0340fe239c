"""Connections that are never reaped: a setting of the pooler that was to end idle ones has no
effect as it is combined with others, in its version, or with clients that stay connected.

Such settings are accepted without a word. pgpool-II ignored connection_life_time together with
serialize_accept (in effect with child_life_time = 0) before 3.5.27, 3.6.23, 3.7.16, 4.0.11, 4.1.4
and 4.2.0; in every version its time does not run while a client is attached. server_idle_timeout
and server_lifetime of PgBouncer end no connection that a client of a session pool holds, nor the
last min_pool_size.

Trigger: such a setting is without effect, and at the end ``STAY_MIN`` or more connections have been
idle for longer than it allows. A run that lasted less than that clears nothing: it says that the
setting has no effect, as the warning before the run does.

Threshold: the setting's own time, rounded up to one of the bounds of the recorded ages (1, 10, 60
s, …). Five connections are no rest of a moment. Calibrated: 12 idle clients of pgpool-II with
connection_life_time = 1 were all there after 7 s, and none of 12 that disconnect.

Look-alikes: pools without any limit, or with one that is longer than the run, are the finding "idle
connections", of which this is a cause.
"""

from __future__ import annotations

from pgdyno.diagnose._signature import Cleared, Found, Signature
from pgdyno.diagnose._situation import Situation
from pgdyno.diagnose.facts.slots import most_of, seen_sessions
from pgdyno.dimension import fields_with
from pgdyno.numbers import counted, duration
from pgdyno.pooler import Ineffective, without_effect
from pgdyno.record.finding import Skip
from pgdyno.record.sessionages import BOUNDS_S
from pgdyno.spec.connections import clients_stay

STAY_MIN = 5


def examine(s: Situation) -> Found | Cleared:
    """Examine idle connections behind a setting without effect."""
    void = _without_effect(s)
    if not void:
        evidence = [s.evidence("settings without effect on idle connections", 0, "count", "any")]
        return Cleared("no setting that ends idle connections is without effect", evidence)
    setting = void[0]
    limit_s = (setting.limit_ms or 0.0) / 1000
    bound_s = next((bound for bound in BOUNDS_S if bound >= limit_s), None)
    if bound_s is None or s.seconds < bound_s:
        raise Skip(f"the run is shorter than the limit; {setting.why}")
    stay = float(seen_sessions(s, bound_s).long_idle[-1])
    evidence = [
        s.evidence("setting without effect", setting.setting, ""),
        s.evidence("its time", limit_s, "s"),
        s.evidence(
            f"connections idle for {bound_s} s or longer", stay, "count", f"at least {STAY_MIN}"
        ),
    ]
    idle = f"{counted(stay, 'connection has', 'connections have')} been idle for"
    sentence = f"{idle} {duration(bound_s)} or longer, and {setting.why}"
    if stay < STAY_MIN:
        return Cleared(sentence, evidence)
    most = most_of(s, "idle")
    of = f"; most are of {most.name}" if most is not None else ""
    return Found(
        sentence=f"{sentence}{of}",
        liftable=0.0,
        confidence=0.9,
        evidence=evidence,
        advice=setting.instead,
    )


def _without_effect(s: Situation) -> list[Ineffective]:
    """Return the settings in force that were to end idle connections and do not."""
    pooler = s.pooler
    if pooler is None:
        return []
    stay = clients_stay(fields_with(s.run.run.spec, s.change))
    found = without_effect(pooler.kind, pooler.settings, pooler.version, stay=stay)
    return [each for each in found if each.limit_ms is not None]


SIGNATURE = Signature(
    id="unreaped-connections",
    false_positives="clients that stay connected on purpose and are used again soon",
    examine=examine,
)
