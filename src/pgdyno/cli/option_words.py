"""Errors of a spec in the words of the command line that it was made of."""

from __future__ import annotations

import re

_OPTIONS = {
    "load.threads": "-j",
    "load.hold": "-T",
    "load.transactions": "-t",
    "load.ramp": "--ramp",
    "load.connecting_max": "--connecting-max",
    "load.max_tries": "--max-tries",
    "load.seed": "--random-seed",
    "load.nice": "--nice",
    "load.cpus": "--cpus",
    "load.log.prefix": "--log-prefix",
    "load.log.sampling_rate": "--sampling-rate",
    "load.log.aggregate_interval": "--aggregate-interval",
    "workload.scale": "-s",
    "workload.init.steps": "-I",
    "workload.init.fillfactor": "-F",
    "workload.init.partitions": "--partitions",
    "workload.init.partition_method": "--partition-method",
    "clients[0].count": "-c",
    "clients[0].think": "--think",
    "clients[0].pool.max": "--pool-max",
    "clients[0].pool.max_wait": "--pool-max-wait",
    "clients[0].arrival.rate": "-R",
    "clients[0].arrival.when_busy": "--when-busy",
    "clients[0].arrival.process": "--process",
    "clients[0].arrival.queue_max": "--queue-max",
    "clients[0].latency_limit": "-L",
    "disk.data": "--data-disk",
    "disk.wal": "--wal-disk",
    "standby.delay": "--standby-delay",
    "standby.manager": "--manager",
    "standby.manager_settings": "--manager-set",
    "pooler.kind": "--pooler",
    "pooler.settings": "--pooler-set",
    "metrics": "--metrics",
    "http.metrics": "--front-metrics",
}
"""Keys of a spec and the options that set them."""
_TABLES = (
    "standby",
    "pooler",
    "load.log",
    "workload.init",
    "load",
    "clients[0].arrival",
    "clients[0].pool",
)


def in_options(message: str) -> str:
    """Return the message of an invalid spec with options instead of the keys that they set."""
    return "\n".join(map(_line_in_options, message.split("\n")))


def _line_in_options(line: str) -> str:
    found = re.match(r"(\s*)([\w.\[\]]+): (.*)", line)
    if found is None:
        return line
    indent, key, text = found.groups()
    if key in _OPTIONS:
        return f"{indent}{_OPTIONS[key]}: {text}"
    if key not in _TABLES:
        return line
    keys = {name.removeprefix(f"{key}."): option for name, option in _OPTIONS.items()}
    said = re.sub(r"[a-z][a-z_.]*[a-z]", lambda word: keys.get(word[0], word[0]), text)
    said = re.sub(r'(--[a-z-]+) = "([^"]*)"', r"\1 \2", said)
    return f"{indent}{said}" if said != text else line
