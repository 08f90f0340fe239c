"""Bad input to the load's options: one message, what is wrong and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from pgdyno.cli.failures import _REPLACEMENTS, _replacement_hint

Pgdyno = Callable[..., "object"]


def test_a_rate_with_rubbish(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-R", "100abc")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-R' / '--rate': "100abc" is not a rate: a number of transactions per second, such as 500

hint: see pgdyno run --help
""",
        )
    )


def test_a_rate_of_zero(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-R", "0")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: -R 0: the rate must be greater than 0

hint: leave -R out for a closed loop without a rate limit
""",
        )
    )


def test_a_negative_rate(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-R", "-5")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-R' / '--rate': "-5" is not a rate: a number of transactions per second, such as 500

hint: see pgdyno run --help
""",
        )
    )


def test_a_limit_with_rubbish(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-L", "abc")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-L' / '--latency-limit': "abc" is not a duration such as 50ms or 500us

hint: see pgdyno run --help
""",
        )
    )


def test_a_limit_of_zero(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-L", "0")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-L' / '--latency-limit': "0" must be greater than 0

hint: see pgdyno run --help
""",
        )
    )


def test_a_negative_time(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--think", "-5s")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '--think': "-5s" is not a duration such as 10s, 200ms or 5min

hint: see pgdyno run --help
""",
        )
    )


def test_weights_of_zero(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-b", "select-only@0", "-b", "tpcb-like@0")
    assert (said.status, said.out, said.err) == snapshot(
        (1, "", "error: workload.script: at least one script needs a weight above 0\n")
    )


def test_an_unknown_builtin(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-b", "tpce")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: -b tpce: "tpce" is not a built-in script

hint: built-in scripts are tpcb-like, simple-update, select-only, business, business-browse, business-payment, business-stream, business-desk, entity-resolution, tpcc-new-order, tpcc-payment, tpcc-order-status, tpcc-delivery, tpcc-stock-level
""",
        )
    )


def test_a_builtin_that_is_not_one(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-b", "s")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: -b s: "s" matches more than one script

hint: built-in scripts are tpcb-like, simple-update, select-only, business, business-browse, business-payment, business-stream, business-desk, entity-resolution, tpcc-new-order, tpcc-payment, tpcc-order-status, tpcc-delivery, tpcc-stock-level
""",
        )
    )


def test_a_workload_and_a_mix(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "tpcb-like", "-S")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: the workload tpcb-like cannot be combined with -f or -b

hint: to mix them: -b tpcb-like@1 -f FILE@1
""",
        )
    )


def test_a_processor_that_is_not_there(pgdyno: Pgdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 3})
    said = pgdyno("run", "--cpus", "4095")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: cpus: pgdyno may not use CPU 4095

hint: it may use 0-1, 3
""",
        )
    )


def test_processors_backwards(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--cpus", "1-0")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '--cpus': "1-0": the first CPU is greater than the last

hint: see pgdyno run --help
""",
        )
    )


def test_a_process_without_a_rate(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--process", "poisson")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: --process requires an open loop, with -R

hint: for example -R 500
""",
        )
    )


def test_a_queue_that_is_skipped(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-R", "5", "--when-busy", "skip", "--queue-max", "3")
    assert (said.status, said.out, said.err) == snapshot(
        (1, "", "error: --queue-max can only be used with --when-busy queue\n")
    )


def test_a_pool_and_a_connection_each(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-C", "--pool-max", "3")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            "error: clients[0]: a pool keeps its connections; use pool.max_lifetime, or remove the pool\n",
        )
    )


def test_binary_values_in_text(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--parameters", "binary", "-M", "simple")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            'error: load: parameters = "binary" needs protocol = "extended" or "prepared"; the simple protocol has no parameters\n',
        )
    )


def test_transactions_and_a_time(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-t", "5", "-T", "3")
    assert (said.status, said.out, said.err) == snapshot(
        (1, "", "error: -t and -T exclude each other\n")
    )


def test_transactions_of_none(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "-t", "0")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '-t' / '--transactions': 0 is not in the range x>=1

hint: see pgdyno run --help
""",
        )
    )


def test_a_seed_with_rubbish(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--random-seed", "12x")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: invalid value for '--seed' / '--random-seed': "12x" is neither time nor rand nor a whole number

hint: see pgdyno run --help
""",
        )
    )


def test_what_belongs_to_the_log_needs_one(pgdyno: Pgdyno) -> None:
    said = pgdyno("run", "--aggregate-interval=3")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: --aggregate-interval requires a transaction log

hint: add -l
""",
        )
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-P", "0"], '"0" must be greater than 0'),
        (["-D", "1x=5"], 'invalid variable name "1x"'),
        (["-D", "a b=5"], 'invalid variable name "a b"'),
        (["-D", "x="], "is not NAME=VALUE"),
        (["-D", "=5"], "is not NAME=VALUE"),
        (["--max-tries", "0", "-t", "5"], "retried forever"),
        (["--sampling-rate", "0.5"], "--sampling-rate requires"),
        (["-l", "--sampling-rate", "0"], "0"),
        (["-l", "--sampling-rate", "0.5", "--aggregate-interval", "5"], "used together"),
        (["-l", "--aggregate-interval", "7", "-T", "30"], "must be a multiple"),
        (["-l", "--aggregate-interval", "1.5"], "whole seconds"),
        (["--seed", str(1 << 64)], "whole number"),
        (["--show-script", "none-such"], "is not a built-in script"),
        (["-b", "s"], "matches more than one script"),
        (["-b", "tpcb-like@0"], "weight above 0"),
    ],
)
def test_values_that_pgbench_refuses_too(
    pgdyno: Pgdyno, arguments: list[str], message: str
) -> None:
    said = pgdyno("run", *arguments)
    assert said.status == 1
    assert message in said.err
    assert said.out == ""


def test_built_in_scripts_are_listed_and_shown(pgdyno: Pgdyno) -> None:
    listed = pgdyno("run", "-b", "list")
    assert listed.status == 0
    assert listed.out.splitlines()[1:] == snapshot(
        [
            "         tpcb-like: <builtin: TPC-B (sort of)>",
            "     simple-update: <builtin: simple update>",
            "       select-only: <builtin: select only>",
            "          business: an order of six or seven items, 30 or 34 statements",
            "   business-browse: a page of the shop",
            "  business-payment: the payment of an order",
            "   business-stream: a batch of a stream consumer",
            "     business-desk: a screen of the help desk",
            "  entity-resolution: a record on its way through entity resolution, about 85 statements",
            "    tpcc-new-order: an order of 5 to 15 items, 26 to 66 statements",
            "      tpcc-payment: the payment of a customer",
            "  tpcc-order-status: the last order of a customer",
            "     tpcc-delivery: the delivery of an order in each district, up to 42 statements",
            "  tpcc-stock-level: how many items of the last orders have little stock",
        ]
    )
    shown = pgdyno("run", "--show-script=sel")
    assert shown.status == 0
    assert shown.out.startswith("-- select-only: <builtin: select only>\n")
    assert shown.out.endswith("select abalance from pgbench_accounts where aid = :aid;\n")


def test_every_option_of_pgbench_is_ours_or_has_a_substitute(pgdyno: Pgdyno) -> None:
    """pgbench 18's options, but for those of connections, help and version."""
    words = re.split(
        r"\s+",
        "aggregate-interval builtin client connect define exit-on-abort failures-detailed file jobs"
        " latency-limit log log-prefix max-tries no-vacuum progress progress-timestamp protocol"
        " random-seed rate report-per-command sampling-rate scale select-only show-script"
        " skip-some-updates time transactions vacuum-all verbose-errors debug foreign-keys"
        " fillfactor index-tablespace init-steps initialize partition-method partitions tablespace"
        " unlogged-tables",
    )
    help_text = pgdyno("run", "--help").out
    for option in [
        *(f"-{letter}" for letter in "bcCDfjlLMnNPrRsStTviIF"),
        *(f"--{word}" for word in words),
    ]:
        assert _replacement_hint(option) or f" {option}" in help_text, option


def test_no_substitute_is_named_for_an_option_that_is_there(pgdyno: Pgdyno) -> None:
    help_text = pgdyno("run", "--help").out
    for names in _REPLACEMENTS:
        for name in names:
            assert f" {name}," not in help_text
            assert f" {name} " not in help_text


def test_a_group_among_several_is_not_guessed(pgdyno: Pgdyno) -> None:
    Path("two.toml").write_text('[[clients]]\nname = "a"\n[[clients]]\nname = "b"\n')
    said = pgdyno("run", "two.toml", "-R", "5")
    assert (said.status, said.out, said.err) == snapshot(
        (
            1,
            "",
            """\
error: two.toml has 2 client groups, so options for clients are ambiguous

hint: change the counts and pools in the file
""",
        )
    )


def test_a_setup_that_is_not_there(pgdyno: Pgdyno) -> None:
    Path("own.toml").write_text('[workload]\nsetup = "absent.sql"\n')
    said = pgdyno("spec", "check", "own.toml")
    assert (said.status, said.out, said.err) == snapshot(
        (1, "", "error: the setup absent.sql cannot be read: No such file or directory\n")
    )


def test_standbys(pgdyno: Pgdyno) -> None:
    asked = [
        ("--standby", "on:two"),
        ("--standby", "sync"),
        ("--standby", "on", "-d", "postgresql://127.0.0.1:1/x"),
    ]
    said = [pgdyno("run", *words) for words in asked]
    assert [(each.status, each.out, each.err) for each in said] == snapshot(
        [
            (
                1,
                "",
                """\
error: invalid value for '--standby': "on:two": "two" is not a number of standbys, as in on:2

hint: see pgdyno run --help
""",
            ),
            (
                1,
                "",
                "error: standby.mode: \"sync\": input should be 'async', 'remote_write', 'on', 'remote_apply' or 'local'\n",
            ),
            (
                1,
                "",
                "error: --standby cannot be used with a running server, only with one started by pgdyno\n",
            ),
        ]
    )
