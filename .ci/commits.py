#!/usr/bin/env python3
"""Check commit messages: a subject of at most 72 characters in the imperative, for one change, and
a body that says why.

Without a file, the commits after ``SINCE`` are checked, except merges, and each bad one is printed
on a line. With one, as git calls the hook ``commit-msg``, the message in it is checked. The exit
status is 1 if a message is bad, and 2 if git cannot be asked.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SINCE = "55006659cbaca0e36255fd04a6794d2fe318148c"
"""The last commit that is exempt: older ones were made before this check, and stay as they are."""
SINCE_TIME = "2026-11-27T06:23:37+00:00"
"""The second after it."""
SUBJECT_CHARS_MAX = 72
_NO_IMPERATIVE = re.compile(r"\w+(?:(?<!e)ed|ing|[^\Wsu]s)")
"""Added, adding, adds, and nouns such as tests; not feed, pass or focus."""
_IMPERATIVES = {"always", "bring", "embed", "ping", "shed", "string"}
"""Words of that form that are right all the same."""
_TRAILER = re.compile(r"[A-Za-z][A-Za-z0-9-]*: |\(cherry picked from commit |\s")
_BELOW_SCISSORS = re.compile(r"^. -+ >8 -+$.*", re.MULTILINE | re.DOTALL)


def faults_of(message: str) -> Iterator[str]:
    """Yield each fault of a commit message."""
    subject, *rest = message.strip().split("\n")
    if len(subject) > SUBJECT_CHARS_MAX:
        yield f"subject of {len(subject)} characters, more than {SUBJECT_CHARS_MAX}"
    first = subject.partition(" ")[0]
    if _NO_IMPERATIVE.fullmatch(first) and first.lower() not in _IMPERATIVES:
        yield f'"{first}" is no imperative'
    if ";" in subject:
        yield "several changes in the subject"
    if rest and rest[0].strip():
        yield "no empty line after the subject"
    body = [line for line in rest if line.strip()]
    if not body:
        yield "no body that says why"
    elif all(_TRAILER.match(line) for line in body):
        yield "only trailers in the body"


def commits_after(since: str) -> Iterator[tuple[str, str]]:
    """Yield the short hash and the message of each commit that ``since`` does not contain.

    Where ``since`` is unknown, as in a shallow clone, these are all that were made later.
    """
    commits = ["HEAD", f"^{since}"]
    if _git("rev-parse", "--quiet", "--verify", f"{since}^{{commit}}") is None:
        print(f"commit {since} is not in this clone: those made after {SINCE_TIME} are checked")
        commits = ["HEAD", f"--since-as-filter={SINCE_TIME}"]
    log = _git("log", "-z", "--no-merges", "--no-show-signature", "--format=%h %B", *commits)
    if log is None:
        sys.exit(2)
    for entry in filter(None, log.split("\0")):
        commit, _, message = entry.partition(" ")
        yield commit, message


def message_in(path: Path) -> str:
    """Return the message in a file that git made for its user to edit."""
    text = _BELOW_SCISSORS.sub("", path.read_text(errors="replace"))
    return _git("stripspace", "--strip-comments", stdin=text) or ""


def _git(*arguments: str, stdin: str = "") -> str | None:
    """Return the output of git; None if it fails, for which it has given the reason."""
    done = subprocess.run(["git", *arguments], input=stdin.encode(), stdout=subprocess.PIPE)
    return None if done.returncode else done.stdout.decode(errors="replace")


def main() -> int:
    """Check the commits, or the message in a file; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="file with the message of a commit")
    parser.add_argument("--since", default=SINCE, metavar="COMMIT", help="the last that is exempt")
    given = parser.parse_args()
    if given.file is None:
        messages = list(commits_after(given.since))
        print(f"commits checked: {len(messages)}")
    elif _git("rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
        messages = []
    else:
        messages = [("commit", message_in(given.file))]
    bad = 0
    for commit, message in messages:
        if faults := ", ".join(faults_of(message)):
            subject, *_ = message.strip().split("\n")
            print(f"{commit} {subject}: {faults}")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
