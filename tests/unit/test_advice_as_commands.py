"""Every command of pgdyno's that it prints as advice is one that its command line takes."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from check_runs import found, judged
from diagnose_runs import diagnosed
from hostile_names import NAMES, tokens, with_names
from test_check_rules import FAULTS
from test_hostile_advice import LOADS

import pgdyno
from pgdyno.check._result import proofs_of
from pgdyno.cli import cli
from pgdyno.cli.compare_options import sql_of
from pgdyno.escaping import shell_line, visible_line
from pgdyno.record.finding import Finding, Proposal
from pgdyno.remedy import Circumstances, catalogue
from pgdyno.remedy.lines import compare_words
from pgdyno.spec import Change

URI = "postgresql://dba@db.example.com:5432/shop"
_MENTIONED = re.compile(r"\bpgdyno ((?:[a-z]+)(?:-[a-z]+)?)\b([^;,.()\n]*)")
_ANOTHER_CLAUSE = re.compile(r" (?:and|or|with|then) ")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def words_of(line: str) -> list[str]:
    """The words of a command, as a shell has them."""
    told = ["bash", "-c", f"printf '%s\\0' {line}"]
    printed = subprocess.run(told, check=True, capture_output=True)
    return printed.stdout.decode().split("\0")[:-1]


def parsed(line: str) -> click.Context:
    """What the command line makes of a command."""
    assert visible_line(line) == line
    pgdyno_itself, *words = words_of(line)
    assert pgdyno_itself == "pgdyno"
    with click.Context(cli, info_name="pgdyno", **cli.context_settings) as context:
        name, command, rest = cli.resolve_command(context, words)
        assert command is not None
        return command.make_context(name, rest, parent=context)


def findings(tmp_path: Path, name: str) -> Iterator[Finding]:
    """Findings of rules and of signatures, on a server where a role has chosen the names."""
    for rule, _, given, _ in FAULTS:
        yield found(judged(**with_names(given, name)))[rule]
    for signature, load in LOADS.items():
        folder = tmp_path / signature.replace(" ", "-")
        folder.mkdir()
        yield diagnosed(folder, load(name))[signature.partition(" ")[0]]


@pytest.mark.parametrize("name", ["orders", *NAMES])
def test_commands_that_prove_findings(tmp_path: Path, name: str) -> None:
    proved = set()
    for finding in findings(tmp_path, name):
        for proof in proofs_of(finding, URI, Circumstances(), {}, predicts=True):
            given = parsed(proof.command).params
            assert given["files"] == ("SCRIPT.sql",)
            on_server = URI in given["what"]
            assert on_server or given["snapshot"] == "SNAPSHOT"
            assert given["may_apply"] == on_server
            sql_of(given["sql"], given["undo_sql"])
            proved.add(finding.id)
    assert proved >= {"no-room-for-hot"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("existing", [True, False])
def test_options_for_any_names_are_one_token_each(name: str, existing: bool) -> None:
    change = Change(
        settings={"application_name": name},
        indexes={f"public.{name}": "id"},
        table_options={f"public.{name}": {"fillfactor": "70", "autovacuum_enabled": "off"}},
    )
    before = {f"public.{name}": {"fillfactor": "90"}}
    words = compare_words(change, existing=existing, before=before)
    given = parsed(shell_line(["pgdyno", "compare", "-f", "a.sql", *words])).params
    assert given["settings"] == (f"application_name={name}",)
    assert len(given["vary"]) == (0 if existing else 3)
    for statement in (*given["sql"], *given["undo_sql"]):
        assert name in "".join(text for _, text in tokens(statement)), statement
        assert ";" not in [text for kind, text in tokens(statement) if kind == "other"]
    if existing:
        _, set_again, reset = given["undo_sql"]
        assert set_again.endswith("set (fillfactor = '90')")
        assert reset.endswith("reset (autovacuum_enabled)")


def test_a_change_that_needs_a_restart_is_measured_on_a_copy() -> None:
    change = Change(settings={"shared_buffers": "1GB"})
    proposed = (Proposal(remedy_id="shared-buffers", change=change, predicted_ratio=2.0, why=""),)
    finding = Finding(id="small-shared-buffers", status="found", sentence="", proposals=proposed)
    assert "shared-buffers" in catalogue()
    (proof,) = proofs_of(finding, URI, Circumstances(), {}, predicts=True)
    assert proof.command == (
        "pgdyno compare --snapshot SNAPSHOT -f SCRIPT.sql --set shared_buffers=1GB"
    )


def texts() -> Iterator[tuple[str, str]]:
    """Every text of the package, with X for what is put into it."""
    for path in Path(pgdyno.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        within: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    str(each.value) if isinstance(each, ast.Constant) else "X"
                    for each in node.values
                ]
                within |= {id(each) for each in node.values}
                yield str(path), "".join(parts)
        for node in ast.walk(tree):
            alone = isinstance(node, ast.Constant) and id(node) not in within
            if alone and isinstance(node.value, str):
                yield str(path), node.value


def test_options_that_texts_name_beside_a_command_are_those_of_it() -> None:
    known = {
        name: cli.get_command(click.Context(cli), name)
        for name in cli.list_commands(click.Context(cli))
    }
    seen = set()
    for path, text in texts():
        for name, rest in _MENTIONED.findall(text):
            command = known.get(name)
            if command is None:
                continue
            options = {
                option for each in all_of(command) for option in each.opts + each.secondary_opts
            }
            for option in _OPTION.findall(_ANOTHER_CLAUSE.split(rest)[0]):
                assert option in options, f"{path}: pgdyno {name}{rest}"
            seen.add(name)
    assert len(seen) > 10


def all_of(command: click.Command) -> Iterator[click.Parameter]:
    """The parameters of a command and of those within it."""
    yield from command.get_params(click.Context(command, **cli.context_settings))
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from all_of(each)
