"""The check of commit messages, on repositories made for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / ".ci" / "commits.py"
SUBJECT = "Read the clock once"
BODY = "Two readings differed."
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "A Contributor" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "contributor@example.org" for who in ("AUTHOR", "COMMITTER")},
}
"""Without the user's configuration, and without the repository of a hook that runs the tests."""


class Repository:
    """A git repository in an empty directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "--quiet", "--initial-branch=main")

    def run(self, *command: str | Path) -> tuple[int, str]:
        """Return the exit status and both outputs."""
        done = subprocess.run(
            command,
            cwd=self.path,
            env=ENVIRONMENT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    def git(self, *arguments: str) -> str:
        status, output = self.run("git", *arguments)
        assert status == 0, output
        return output.strip()

    def commit(self, message: str) -> str:
        """Make an empty commit; return its short hash."""
        self.git("commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "-m", message)
        return self.git("rev-parse", "--short", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a bad commit, ``old``, that is exempt."""
    made = Repository(tmp_path)
    made.commit("old")
    made.git("tag", "old")
    return made


@pytest.mark.parametrize(
    "message",
    [
        f"{SUBJECT}\n\n{BODY}",
        f"{'Ä' * 72}\n\n{BODY}\n\nSigned-off-by: A Contributor <contributor@example.org>",
        f"Feed tests, pass strings\n\n{BODY}",
    ],
)
def test_a_good_commit_passes(repository: Repository, message: str) -> None:
    repository.commit(message)
    assert repository.run(CHECK, "--since", "old") == (0, "commits checked: 1\n")


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (f"{'x' * 73}\n\n{BODY}", "subject of 73 characters, more than 72"),
        (SUBJECT, "no body that says why"),
        (f"{SUBJECT}\n\nRefs: 1\nSigned-off-by: A\n  B\n", "only trailers in the body"),
        (f"{SUBJECT}\n{BODY}", "no empty line after the subject"),
        (f"{SUBJECT}; count\n\n{BODY}", "several changes in the subject"),
        (f"Tests of clocks\n\n{BODY}", '"Tests" is no imperative'),
        ("Added x", '"Added" is no imperative, no body that says why'),
    ],
)
def test_a_bad_commit_is_named_with_its_faults(
    repository: Repository, message: str, fault: str
) -> None:
    bad = repository.commit(message)
    repository.commit(f"{SUBJECT}\n\n{BODY}")
    status, output = repository.run(CHECK, "--since", "old")
    subject = message.partition("\n")[0]
    assert (status, output) == (1, f"commits checked: 2\n{bad} {subject}: {fault}\n")


def test_merges_are_exempt_and_what_they_merge_is_not(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "side")
    bad = repository.commit(SUBJECT)
    repository.git("checkout", "--quiet", "main")
    repository.commit(f"{SUBJECT}\n\n{BODY}")
    repository.git("merge", "--quiet", "--no-ff", "-m", "Merge side; x", "side")
    status, output = repository.run(CHECK, "--since", "old")
    assert status == 1
    assert output.splitlines() == ["commits checked: 2", f"{bad} {SUBJECT}: no body that says why"]


def test_later_commits_are_checked_where_the_first_is_unknown(repository: Repository) -> None:
    status, output = repository.run(CHECK)
    assert status == 1
    unknown, checked, bad = output.splitlines()
    assert unknown.endswith("are checked")
    assert checked == "commits checked: 1"
    assert bad.endswith(" old: no body that says why")


def test_it_fails_where_there_is_no_repository(tmp_path: Path) -> None:
    done = subprocess.run([CHECK], cwd=tmp_path, env=ENVIRONMENT, capture_output=True)
    assert done.returncode == 2


def test_as_a_hook_it_refuses_a_bad_message(repository: Repository) -> None:
    hook = repository.path / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(CHECK)
    bad = "# comment\nRead\n\n# comment\n# ---- >8 ----\ndiff"
    draft = repository.path / "draft"
    draft.write_text(bad)
    asked = ("git", "commit", "--allow-empty", "--cleanup=scissors", "--file", draft)
    assert repository.run(*asked) == (1, "commit Read: no body that says why\n")
    draft.write_text(f"{bad}\n".replace("Read", f"{SUBJECT}\n\n{BODY}"))
    assert repository.run(*asked)[0] == 0
    # The subject that git itself gives a merge.
    repository.git("checkout", "--quiet", "-b", "side", "old")
    repository.commit(f"{SUBJECT}\n\n{BODY}")
    repository.git("merge", "--quiet", "--no-edit", "main")
