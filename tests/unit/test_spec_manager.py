"""Settings of a failover manager: what Patroni accepts, refused otherwise with the rule."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from pgdyno.errors import UsageError
from pgdyno.spec import spec_from_fields
from pgdyno.spec.standby import in_words, manager_seconds, typed_manager_settings


def refusal(settings: dict[str, Any], **standby: Any) -> str:
    fields = {"manager": "patroni", "manager_settings": settings, **standby}
    with pytest.raises(UsageError) as raised:
        spec_from_fields({"standby": fields})
    return raised.value.message


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ttl": 19}, "manager_settings.ttl: 19 s is less than Patroni's minimum, 20 s"),
        ({"loop_wait": 0}, "manager_settings.loop_wait: 0 s is less than Patroni's minimum, 1 s"),
        ({"retry_timeout": "2s"}, "manager_settings.retry_timeout: 2 s is less than"),
        ({"ttl": 20}, "ttl: Patroni requires loop_wait + 2 * retry_timeout <= ttl, and 10 + 2 *"),
        ({"retry_timeout": 11}, "retry_timeout: Patroni requires loop_wait + 2 * retry_timeout"),
        ({"ttl": "soon"}, 'manager_settings.ttl: "soon" is not a number of seconds'),
        ({"no_such": 1}, '"no_such" is not among the settings ttl, loop_wait, retry_timeout'),
        ({"synchronous_mode": True}, "manager_settings.synchronous_mode: standby.mode sets this"),
        ({"synchronous_mode_strict": True}, "commits wait for no standby with this mode"),
        ({"synchronous_mode_strict": "maybe"}, '"maybe" is neither on nor off'),
        ({"maximum_lag_on_failover": "much"}, "manager_settings.maximum_lag_on_failover: "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_patroni_does_not_accept_is_refused_with_the_rule(
    settings: dict[str, Any], words: str
) -> None:
    assert words in refusal(settings)


def test_a_manager_needs_standbys_and_settings_need_a_manager() -> None:
    assert refusal({}, count=0) == snapshot(
        'standby: manager = "patroni" needs a standby: count must not be 0'
    )
    assert refusal({}, count=1, receivewal=True) == snapshot(
        'standby: receivewal cannot be used with manager = "patroni", which drops slots'
        " that it does not know"
    )
    with pytest.raises(UsageError, match="manager_settings can only be used with a manager"):
        spec_from_fields({"standby": {"count": 1, "manager_settings": {"ttl": 30}}})


def test_a_managed_cluster_has_three_nodes_unless_told() -> None:
    standby = spec_from_fields({"standby": {"manager": "patroni"}}).standby
    assert standby.count == 2
    assert in_words(standby) == snapshot("2 standbys, managed by Patroni: no commit waits for it")
    assert spec_from_fields({"standby": {"manager": "patroni", "count": 1}}).standby.count == 1


def test_settings_have_patronis_types_and_defaults() -> None:
    given = {"ttl": "40s", "maximum_lag_on_failover": "2MB", "synchronous_mode_strict": "on"}
    typed = {"ttl": 40, "maximum_lag_on_failover": 2 << 20, "synchronous_mode_strict": True}
    assert typed_manager_settings(given) == typed
    assert [manager_seconds(given, name) for name in ("ttl", "loop_wait")] == [40, 10]
