"""The examples of CONTRIBUTING.md: each is one file that makes a copy of the package know one more
command, signature, rule, remedy, fault, check or dimension."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from diagnose_runs import CPU, IDLE, Load, written
from examples import EXAMPLES, package_with_examples

import pgdyno
from pgdyno.record import Recorder

ROOT = Path(__file__).parents[2]
PACKAGE = Path(pgdyno.__file__).parent
Python = Callable[..., str]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a copy of the package and the examples in it."""
    return package_with_examples(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def python(copy: Path, tmp_path: Path) -> Python:
    """Runs Python with the copy, and returns what it prints."""

    def run(*words: str | Path) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(copy / "src"), "COLUMNS": "100"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_there_is_an_example_of_each() -> None:
    directories = {str(Path(name).parent) for name in EXAMPLES}
    assert len(EXAMPLES) == len(directories) + 2, "of commands and rules there are two kinds"
    assert directories == {
        "cli", "results", "investigate", "report/views", "rules", "remedy", "drill/faults",
        "drill/checks", "dimension/kinds",
    }  # fmt: skip


def test_a_command_is_listed_completed_documented_and_run(
    python: Python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path, Load()).path
    help_text = python("-m", "pgdyno", "--help")
    assert help_text.splitlines()[-1].split(maxsplit=1) == [
        "ledger", "Print the transaction ledger of a run file",
    ]  # fmt: skip
    printed = dict(line.split() for line in python("-m", "pgdyno", "ledger", run).splitlines())
    assert printed["intended"] == printed["done"] == "10,000"
    documented = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'docs')!r}); import generate\n"
        "assert '## pgdyno ledger' in generate.reference()\n"
        "assert 'pgdyno-ledger.1' in generate.man_pages()"
    )
    python("-c", documented)
    for name, value in (("_PGDYNO_COMPLETE", "bash_complete"), ("COMP_WORDS", "pgdyno le")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", "1")
    main = "from pgdyno.cli import cli; cli(prog_name='pgdyno')"
    assert python("-c", main) == "plain,ledger\n"


def test_help_imports_no_command(python: Python) -> None:
    code = (
        "import sys; sys.argv = ['pgdyno', '--help']\n"
        "from pgdyno.cli import _status; _status()\n"
        "print([name for name in sys.modules if name.endswith('_command')])"
    )
    assert python("-c", code).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("waits", "status"), [({IDLE: 3.0, CPU: 0.5}, "found"), ({CPU: 1.0}, "cleared")]
)
def test_a_rule_of_a_load_is_asked(
    python: Python, tmp_path: Path, waits: dict[tuple[str, str], float], status: str
) -> None:
    run = written(tmp_path, Load(sessions=waits)).path
    code = (
        "from pgdyno.diagnose import diagnose; from pgdyno.record import RunFile\n"
        f"run = RunFile({str(run)!r})\n"
        "found = diagnose(run, [part.id for part in run.slices()]).findings\n"
        "print(*(f'{each.id} {each.status}' for each in found), sep='\\n')"
    )
    assert f"open-transactions {status}" in python("-c", code).splitlines()


@pytest.mark.parametrize(("value", "status"), [("off", "found"), ("on", "cleared")])
def test_a_rule_of_a_check_is_asked(
    python: Python, tmp_path: Path, value: str, status: str
) -> None:
    path = tmp_path / "check.db"
    setting = {"name": "track_io_timing", "setting": value, "unit": None, "boot_val": "off",
               "source": "default", "context": "superuser", "pending_restart": False}  # fmt: skip
    look = {"look": "setting", "duration_ms": 1.0, "rows": [setting], "why": "", "allow": ""}
    with Recorder.create(path, name="check", command="check") as recorder:
        recorder.add_rows("look", [look])
        recorder.finish("done")
    code = (
        "from pgdyno.check._judging import judge; from pgdyno.record import RunFile\n"
        f"found = judge(RunFile({str(path)!r})).findings\n"
        "print(*(f'{each.id} {each.status}' for each in found), sep='\\n')"
    )
    assert f"no-io-timing {status}" in python("-c", code).splitlines()


def test_a_remedy_is_assessed_and_makes_the_question_of_a_trial(python: Python) -> None:
    code = (
        "from pgdyno.remedy import Circumstances, assess\n"
        "from pgdyno.spec import Change\n"
        "from pgdyno.trial.question import question_of\n"
        "for value in 'off', 'on':\n"
        "    known = assess(Change(settings={'wal_recycle': value}), Circumstances())\n"
        "    question = question_of(known, kind='compare', title='a', seconds=1.0)\n"
        "    print(question.labels['remedy'], known.durability_class, known.uncatalogued)"
    )
    assert python("-c", code).splitlines() == ["new-wal-segments D0 ()", "None D0 ()"]


def test_a_fault_is_listed_accepted_and_has_its_bound(python: Python, tmp_path: Path) -> None:
    help_text = " ".join(python("-m", "pgdyno", "drill", "--help").split())
    listed = re.search(r"Fault to inject: ([^.]*)\.", help_text)
    assert listed is not None
    assert "postmaster-kill" in re.split(r", *", listed[1].replace("- ", "-"))
    spec = tmp_path / "spec.toml"
    spec.write_text('[[story]]\ntitle = "a"\nfault = "postmaster-kill"\nexpect = "clean"\n')
    assert 'fault = "postmaster-kill"' in python("-m", "pgdyno", "spec", "check", spec)
    code = (
        "from pgdyno.drill.fault import find_fault; from pgdyno.remedy import Circumstances\n"
        "print(find_fault('postmaster-kill').bound(Circumstances()).ms)"
    )
    assert python("-c", code) == "0.0\n"


def test_a_check_is_made(python: Python) -> None:
    code = (
        "from pgdyno.drill._checking import check_rules\n"
        "print(*(rule.name for rule in check_rules()))"
    )
    assert "valid-indexes" in python("-c", code).split()


def test_a_dimension_reads_its_keys_enters_a_spec_and_has_titles(
    python: Python, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(
        '[[story]]\ntitle = "a"\nvary = { "statistics.pgbench_tellers" = "bid, tbalance" }\n'
    )
    python("-m", "pgdyno", "spec", "check", spec)
    code = (
        "from pgdyno.dimension import change_of, spec_with, title_of\n"
        "from pgdyno.remedy import Circumstances, assess\n"
        "from pgdyno.spec import Spec\n"
        "change = change_of({'statistics.pgbench_tellers': 'bid, tbalance'}, spec=Spec())\n"
        "print(title_of(change)); print(spec_with(Spec(), change).events[0].sql)\n"
        "print(*assess(change, Circumstances()).uncatalogued)"
    )
    assert python("-c", code).splitlines() == [
        "statistics on bid, tbalance of pgbench_tellers",
        "create statistics pgdyno_pgbench_tellers on bid, tbalance from pgbench_tellers",
        "statistics.pgbench_tellers",
    ]


@pytest.mark.long
def test_the_rules_of_the_house_need_no_line_more(copy: Path, python: Python) -> None:
    (copy / "tests" / "unit").mkdir(parents=True)
    for name in ("test_house.py", "rust_modules.py", "sources.py"):
        shutil.copy(ROOT / "tests" / "unit" / name, copy / "tests" / "unit")
    chosen = " or ".join([*EXAMPLES, "circle", "begins_with_an_underscore"])
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", copy, "-k", chosen)
    python(*words, copy / "tests" / "unit" / "test_house.py")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_formatted_like_the_package(name: str) -> None:
    text = EXAMPLES[name]
    assert ast.get_docstring(ast.parse(text))
    for tool in (("format", "--check"), ("check",)):
        said = subprocess.run(
            [sys.executable, "-m", "ruff", *tool, "--stdin-filename", PACKAGE / name, "-"],
            input=text,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert said.returncode == 0, said.stdout + said.stderr
