"""Sentences shared by the terminal and the page: setting, noise, trials, durability."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from pgdyno import numbers
from pgdyno.dimension import title_of
from pgdyno.facts.failures import failures
from pgdyno.record import RunFile, RunInfo, SliceKind
from pgdyno.report.view import view_of
from pgdyno.results.chapter import Chapter, by_variant
from pgdyno.spec.disk import in_words
from pgdyno.spec.pooler import SIZE_SETTINGS
from pgdyno.spec.units import parse_duration_ms
from pgdyno.stats import mean_with_interval, more_pairs_words

if TYPE_CHECKING:
    from pgdyno.json_types import Fields
    from pgdyno.record.facts import HostFacts, ServerFacts
    from pgdyno.record.finding import Finding, Proposal
    from pgdyno.remedy import Circumstances, Promise, Remedy
    from pgdyno.report.attempts import Attempt
    from pgdyno.report.summary import RunSummary
    from pgdyno.results.common import Postponed, PostponedSide
    from pgdyno.results.compare import ComparedSql

GROUPS_NAMED_MAX = 3
"""Number of client groups up to which each is named."""
NOT_A_REAL_DISK = "figures are not those of a real disk"
"""The note on figures measured with an emulated disk."""
RESULT_UNREADABLE = (
    "the recorded result cannot be read: it is damaged, or another version of pgdyno wrote it; what"
    " else was recorded is shown, and it is not known whether the figures can be trusted"
)
"""The note on a run file whose result does not validate."""

CLASS_MEANING = {
    "D0": "loses nothing that was acknowledged",
    "D1": "may lose the last acknowledged commits",
    "D2": "may lose the consistency of the database",
    "D3": "may lose the whole database",
    "unknown": "what it may lose is not known",
}
"""Meaning of each durability class: the possible loss in a crash of the operating system."""

NEED_MEANING = {
    "reload": "takes effect with a reload",
    "restart": "needs a restart of the server",
    "client": "in the application or its pool, not in the server",
    "table": "is a storage parameter of the table; takes effect for new pages",
    "index": "is created beside the load (CONCURRENTLY), which takes longer than alone",
    "rewrite": "rewrites the tables under an ACCESS EXCLUSIVE lock",
    "layout": "moves files or adds a server; the server is stopped for it",
    "machine": "root sets it on the server's machine, for all its programs",
    "sql": "by SQL of your own",
}


def setting_of_run(info: RunInfo, connected: Mapping[str, int] | None = None) -> list[str]:
    """Return server, host, workload and clients in a few words each, for the line under the title.
    ``connected``: connected clients of the groups in which some were not connected."""
    varies = view_of(info.command).varies
    parts = [_server_words(info), _database_words(info.server)]
    parts.append(_pooler_words(info.server, size=varies != "pools"))
    parts += [_host_words(info.host), disks(info)]
    parts.append(_workload_words(info.spec))
    if varies != "clients":
        parts += _client_words(info.spec, connected or {}, pools=varies != "pools")
    return [part for part in parts if part]


def started_at(info: RunInfo) -> str:
    """Return the wall clock time of the start, in UTC."""
    moment = datetime.fromtimestamp(info.started_unix_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def time_taken(info: RunInfo) -> str:
    """Return the duration of the run; '' while it is running."""
    return "" if info.ended_ms is None else numbers.duration(info.ended_ms / 1000)


def _server_words(info: RunInfo) -> str:
    version = info.server.get("version")
    if not version:
        return _web_server(info.spec)
    whose = ", started by pgdyno" if info.server.get("kind") == "embedded" else ""
    if snapshot := info.server.get("snapshot"):
        whose += f" from the snapshot {snapshot}"
    behind = f"{_web_words(info)} in front of " if info.spec.get("http") else ""
    return f"{behind}PostgreSQL {str(version).split(' (')[0]}{whose}"


def _web_words(info: RunInfo) -> str:
    """Return the web server in front of the database: the user's, or one that pgdyno started."""
    started = info.server.get("front")
    if not started:
        return _web_server(info.spec)
    parts = started["parts"]
    return f"Tomcat {parts['tomcat']} with {parts['pool']}, started by pgdyno,"


def _web_server(spec: Fields) -> str:
    """Return the web server that requests are sent to, without its path; '' if there is none."""
    url = str((spec.get("http") or {}).get("url", ""))
    return "/".join(url.split("/")[:3])


def _database_words(server: ServerFacts) -> str:
    """Return the database used on a server that pgdyno did not start, and the user's pooler in
    front of it."""
    if server.get("kind") == "embedded" or not server.get("database"):
        return ""
    database, named = server["database"], server.get("database_named")
    entrance = server.get("entrance_uri")
    if entrance:
        return f"database {database}, through {entrance}"
    if named is not None and named != database:
        return f"database {database}, because {named} lacks the tables"
    return f"database {database}"


def _pooler_words(server: ServerFacts, *, size: bool) -> str:
    """Return the pooler that pgdyno started, with the settings that it was given; ``size``: with
    that of its pool."""
    pooler = server.get("pooler")
    if not pooler:
        return ""
    left_out = None if size else SIZE_SETTINGS.get(pooler["kind"])
    given = {name: value for name, value in pooler["settings"].items() if name != left_out}
    settings = ", ".join(f"{name} = {value}" for name, value in given.items())
    return f"through {pooler['title']}" + (f" ({settings})" if settings else "")


def _host_words(host: HostFacts) -> str:
    words = []
    if cores := host.get("cores"):
        words.append(f"{cores:g} core{'s' if cores != 1 else ''}")
    if memory := host.get("memory_bytes"):
        words.append(f"{memory / 1024**3:.0f} GB")
    kinds = [place.get("type") for place in (host.get("filesystem") or {}).values()]
    words += [str(kind) for kind in dict.fromkeys(kinds) if kind]
    if host.get("same_host_as_server") is False:
        return f"load from {', '.join(words)}" if words else ""
    return ", ".join(words)


def _workload_words(spec: Fields) -> str:
    workload = spec.get("workload") or {}
    groups = [group for group in spec.get("clients") or [] if not group.get("idle")]
    if groups and all(group.get("script") for group in groups):
        return str(spec.get("name", ""))
    script = workload.get("script")
    if isinstance(script, list):
        script = numbers.listed([_part_name(part) for part in script], most=None)
    if not script:
        return ""
    scale = workload.get("scale", 1)
    scaled = scale != 1 or script in ("tpcb-like", "simple-update", "select-only")
    return f"{script} at scale {scale}" if scaled else str(script)


def _part_name(part: Fields) -> str:
    if request := part.get("request"):
        return f"GET {request}"
    return PurePath(str(part.get("file") or part.get("builtin") or "?")).stem


def _client_words(spec: Fields, connected: Mapping[str, int], *, pools: bool) -> list[str]:
    """Return the clients of each group; ``pools``: with the sizes of their pools."""
    groups: Sequence[Fields] = spec.get("clients") or []
    if len(groups) > GROUPS_NAMED_MAX:
        counts = {group["name"]: int(group.get("count") or 0) for group in groups}
        clients, there = sum(counts.values()), sum({**counts, **connected}.values())
        return [f"{_clients(clients, there)} in {len(groups)} groups", *_instances_words(groups)]
    words = []
    for group in groups:
        pool = group.get("pool") or {}
        through = _through(pool, group.get("instances", 1)) if pools and pool.get("max") else ""
        name = f" ({group['name']})" if len(groups) > 1 else ""
        who = _clients(group.get("count"), connected.get(group.get("name", "")))
        words.append(f"{who}{name}{through}{_arrival_words(group)}{_time_words(group)}")
    return words


def _through(pool: Fields, instances: int) -> str:
    if instances == 1:
        return f" through a pool of {pool['max']}"
    return f" of {numbers.count(instances)} instances, each through a pool of {pool['max']}"


def _instances_words(groups: Sequence[Fields]) -> list[str]:
    """Return the pools of groups with several instances, which a table of groups does not show."""
    return [
        f"{group['name']} has {numbers.count(group['instances'])} instances with a pool of"
        f" {group['pool']['max']} each"
        for group in groups
        if group.get("instances", 1) > 1 and group.get("pool")
    ]


def _clients(count: int | None, connected: int | None = None) -> str:
    of = "" if connected in (None, count) else f"{numbers.count(connected)} of "
    return f"{of}{numbers.count(count)} client{'' if count == 1 else 's'}"


def _arrival_words(group: Fields) -> str:
    """Return `` at 500/s (poisson)``; '' for a closed loop."""
    arrival = group.get("arrival")
    if not isinstance(arrival, Mapping):
        return ", idle" if group.get("idle") else ""
    return f" at {numbers.tps(arrival.get('rate'))}/s ({arrival.get('process', 'poisson')})"


def _time_words(group: Fields) -> str:
    """Return `` with pauses of 50s, late after 50ms``, as far as the group has these."""
    words = []
    if (think := group.get("think")) and parse_duration_ms(think):
        words.append(f"with pauses of {think}")
    if limit := group.get("latency_limit"):
        words.append(f"late after {limit}")
    return f" {', '.join(words)}" if words else ""


def disks(info: RunInfo) -> str:
    """Return the disks of the run; '' for the machine's own."""
    return numbers.listed(in_words(info.spec), most=None)


def noise_sentence(summary: RunSummary) -> str:
    """Return the comparison of identical slices in one sentence; '' if it was not measured."""
    interval, shows = summary.noise_interval, summary.six_pairs_show
    if interval is None or summary.noise is None:
        return ""
    of_p99 = " in p99" if summary.noise_of_p99 else ""
    text = f"identical slices differ{of_p99} by {numbers.interval(*interval)}"
    if not interval[0] <= 1 <= interval[1]:
        text += ", which excludes 1: by chance in one of 20 measurements, or a side is favoured"
    if not shows:
        return f"{text} in {summary.noise.trial.pairs} pairs"
    return f"{text}; six pairs show effects of about {numbers.percent(shows)} or more"


def comparison_sentence(attempt: Attempt) -> str:
    """Return the result of a comparison in one sentence, without a period."""
    if attempt.throughput is None:
        reason = attempt.trial.sentence
        return f"no verdict: {reason}" if reason else "the comparison has no result"
    return attempt.trial.sentence or f"{attempt.title}: {attempt.throughput} in throughput"


def failure_words(run: RunFile, attempt: Attempt) -> str:
    """Return the failures on each side of a comparison; '' if nothing was measured."""
    if not (attempt.slices["a"] and attempt.slices["b"]):
        return ""
    before, after = (failures(run, attempt.slices[side]) for side in ("a", "b"))
    return f"{after} with the change; {before} without"


def void_words(run: RunFile) -> str:
    """Return the number of void slices of trials and the reasons; '' if there are none."""
    reasons = Counter(
        each.void for each in run.slices() if each.void and each.kind is not SliceKind.RUN
    )
    if not reasons:
        return ""
    listed = "; ".join(f"{why} ({n}x)" for why, n in reasons.most_common())
    total = sum(reasons.values())
    are = "is" if total == 1 else "are"
    return f"{total} slice{'' if total == 1 else 's'} {are} void and not counted: {listed}"


def predicted_words(attempt: Attempt) -> str:
    """Return the predicted gain in throughput, and of a shorter response time that too; '' if there
    is none. Where clients hold a rate, the prediction is for a load that uses the server's full
    capacity."""
    ratio = attempt.trial.predicted_ratio
    if ratio is None:
        return ""
    gain = numbers.predicted(ratio, attempt.trial.predicted_interval)
    gain += _response_words(attempt.trial.predicted_response_ratio)
    return f"{gain} at full load" if attempt.rate_held else gain


def _response_words(ratio: float | None) -> str:
    return "" if ratio is None else f", response time {numbers.predicted(ratio)}"


def full_load(info: RunInfo) -> str:
    """Return the addition to a predicted throughput: `` at full load`` if some clients send at a
    rate, which may be less than the server's capacity."""
    groups: Sequence[Fields] = info.spec.get("clients") or []
    open_loops = [group for group in groups if isinstance(group.get("arrival"), Mapping)]
    return " at full load" if open_loops else ""


def measured_words(attempt: Attempt) -> str:
    """Return the measured effect with its interval; '' if there is none."""
    if attempt.throughput is None:
        return ""
    if attempt.rate_held and attempt.latency_p99:
        return f"p99 {attempt.latency_p99} at the held rate"
    return str(attempt.throughput)


def level_words(attempt: Attempt) -> dict[str, list[str]]:
    """Return by figure its effect, its levels before and after, and for throughput the number of
    pairs."""
    words = {}
    if attempt.throughput is not None:
        words["throughput"] = [str(attempt.throughput)]
        if tps := attempt.tps:
            levels = f"{numbers.tps(tps.before)} → {numbers.tps(tps.after)} tps"
            words["throughput"] += [levels, f"{attempt.trial.pairs} pairs"]
    if attempt.latency_p99 is not None:
        words["p99"] = [str(attempt.latency_p99)]
        if p99_ms := attempt.p99_ms:
            words["p99"].append(numbers.from_to_ms(p99_ms.before, p99_ms.after))
    return words


_SET_BY = {
    "sessions": "in the load's own sessions",
    "reload": "by ALTER SYSTEM and a reload",
    "restart": "by ALTER SYSTEM and a restart",
}


def set_by_words(attempt: Attempt) -> str:
    """Return how a trial applied its settings, in a short phrase; '' without settings."""
    return how_set(attempt.trial.set_by)


def how_set(set_by: Mapping[str, str]) -> str:
    """Return how settings were set, in a short phrase; '' without settings."""
    ways: dict[str, list[str]] = {}
    for name, way in set_by.items():
        ways.setdefault(way, []).append(name)
    if len(ways) == 1:
        return f"set {_SET_BY[next(iter(ways))]}"
    return "; ".join(f"{', '.join(names)} set {_SET_BY[way]}" for way, names in ways.items())


def decision_words(attempt: Attempt) -> str:
    """Return the decision on a change, with its reason in a few words."""
    decision, verdict = attempt.outcome, attempt.trial.verdict
    if not attempt.was_measured:
        return attempt.trial.sentence
    if decision == "rejected" and verdict in ("not comparable", "mixed"):
        return f"rejected: {attempt.trial.sentence}"
    if decision == "inconclusive":
        return f"inconclusive: {more_pairs_words(attempt.trial.pairs_needed)}"
    if decision == "rejected" and verdict and verdict != "better":
        return f"rejected: {verdict}"
    if attempt.remedy and attempt.remedy.guards and decision in ("kept", "offered"):
        cost = "no cost was measured" if decision == "kept" else "at this cost"
        return f"{decision}: {attempt.remedy.summary}; {cost}"
    if decision == "offered" and not attempt.loses_nothing:
        return f"offered: {attempt.assessment.bound}"
    return decision


def postponed_words(attempt: Attempt) -> str:
    """Return the work that the slices deferred and did at their end; '' if there was none."""
    parts = [
        f"{_work(each.after, each)} (without the change {_work(each.before, each)})"
        for each in attempt.postponed
    ]
    return f"deferred work, done within each slice: {'; '.join(parts)}" if parts else ""


def _work(side: PostponedSide, work: Postponed) -> str:
    unit, _, rest = work.unit.partition(" ")
    if side.amount is None:
        amount = f"an unknown amount of {work.unit}"
    elif unit == "bytes":
        amount = f"{numbers.measured(side.amount, unit)} {rest}"
    else:
        amount = f"{numbers.count(side.amount)} {work.unit}"
    return f"{amount}, {numbers.ms(side.ms)}"


def proof_words(attempt: Attempt) -> str:
    """Return the trial's conclusion on the finding, with the reason; '' if there is none."""
    trial = attempt.trial
    return f"{trial.proof}: {trial.proof_why}" if trial.proof else ""


def throughput_words(run: RunFile, summary: RunSummary) -> str:
    """Return the mean throughput of the measured period, of two minutes or more with its interval;
    '' if no transaction was done."""
    if summary.before is None:
        return ""
    return f"{numbers.tps(summary.before.throughput_tps)} tps {mean_interval_words(run, summary)}"


def mean_interval_words(run: RunFile, summary: RunSummary) -> str:
    """Return the interval of that mean, where it has one, and the measured time; '' if no
    transaction was done."""
    if summary.before is None:
        return ""
    ids = summary.before.slice_ids
    whole = [i.throughput_tps for i in run.intervals(ids) if i.duration_ms >= 500]
    estimate = mean_with_interval(whole or [0.0])
    interval = ""
    if math.isfinite(estimate.lo):
        interval = f"[{numbers.tps(max(0.0, estimate.lo))}, {numbers.tps(estimate.hi)}] "
    return f"{interval}over {numbers.duration(run.seconds(ids))}"


def might_help(findings: Iterable[Finding], summary: RunSummary) -> list[str]:
    """Return the proposals of all these findings in one list, in the order of ``Promise.place``."""
    proposed = [(finding, proposal) for finding in findings for proposal in finding.proposals]
    if not proposed:
        return []
    from pgdyno.report.attempts import in_force

    load = full_load(summary.info)
    before = in_force(summary.info)
    found = [(_promise(finding, proposal, before), proposal) for finding, proposal in proposed]
    promises = [promise for promise, _ in found]
    found.sort(key=lambda each: each[0].place(promises), reverse=True)
    return [_proposal(proposal, load, before) for _, proposal in found]


def _promise(finding: Finding, proposal: Proposal, before: Circumstances) -> Promise:
    from pgdyno.remedy import Promise, assess, catalogue

    remedy = catalogue().get(proposal.remedy_id)
    name = assess(proposal.change, before).durability_class
    guards = remedy is not None and remedy.guards
    return Promise(finding.id, guards, proposal.prediction, name)


def _proposal(proposal: Proposal, load: str, before: Circumstances) -> str:
    from pgdyno.remedy import assess, catalogue

    remedy = catalogue().get(proposal.remedy_id)
    predicted = prediction(remedy, proposal, load)
    if remedy is None:
        return f"{proposal.remedy_id} ({predicted})"
    name = assess(proposal.change, before).durability_class
    price = "" if name == "D0" else f"{name}, "
    return f"{title_of(proposal.change)} ({price}{predicted})"


def prediction(remedy: Remedy | None, proposal: Proposal, load: str = "") -> str:
    """Return the prediction for a remedy that was not measured: its gain, or what it prevents."""
    if remedy is not None and remedy.guards:
        return remedy.summary
    gain = numbers.predicted(proposal.predicted_ratio, proposal.predicted_interval)
    return f"predicted {gain}{load}" + _response_words(proposal.predicted_response_ratio)


def class_words(attempt: Attempt, summary: RunSummary) -> str:
    """Return the durability class with its meaning and its measured price."""
    name = attempt.durability_class
    if not name:
        return ""
    words = f"{name}: {CLASS_MEANING[name]}" if name in CLASS_MEANING else name
    price = price_words(attempt, summary)
    return f"{words}; {price}" if price else words


def took_words(summary: RunSummary) -> str:
    """Return how long a change by SQL took itself; '' where it was not by SQL."""
    sql: ComparedSql | None = summary.part("sql")
    if sql is None or sql.make_ms is None:
        return ""
    undo = "" if sql.undo_ms is None else f", and {numbers.ms(sql.undo_ms)} to undo it"
    return f"the SQL takes {numbers.ms(sql.make_ms)}{undo} (medians of {sql.times}, without a load)"


def assessed_words(attempt: Attempt) -> str:
    """Return the class of a change and its bound from the catalogue."""
    name = attempt.durability_class
    return f"{name}: {attempt.assessment.loss or CLASS_MEANING.get(name, name)}"


def price_words(attempt: Attempt, summary: RunSummary) -> str:
    """Return the losses that drills measured under the change, or that there were no drills; ''
    for a change of class D0 without drills."""
    row = summary.price_of(attempt)
    if row is not None:
        from pgdyno.price.sentences import loss_words

        drilled = any(loss.drilled for loss in row.losses)
        return f"{'measured price: ' if drilled else ''}{'; '.join(loss_words(row.losses))}"
    return "" if attempt.loses_nothing else "not drilled"


def shorter_words(attempt: Attempt) -> str:
    """Return the price of a change that was to shorten the response time; '' for any other."""
    shorter = attempt.trial.predicted_response_ratio is not None
    return f"price: {attempt.assessment.price}" if shorter else ""


def expectation(chapter: Chapter) -> str:
    """Return the expected ending of a chapter and whether it occurred; '' if none was expected."""
    if chapter.as_expected is None:
        return ""
    ending = "as expected" if chapter.as_expected else "differently"
    return f"{expected_words(chapter.expected)}; it ended {ending}"


def expected_words(expected: str | Mapping[str, str] | None) -> str:
    """Return the expected ending of a chapter, by variant where they differ."""
    if isinstance(expected, Mapping):
        return by_variant(expected)
    return str(expected)
