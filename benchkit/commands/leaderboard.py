"""Rank submissions that may be compared, and name what keeps the others out.

examples:
  benchkit leaderboard painting_vision --from submissions/*.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchkit.commands._shared import guarded, parse, parser, say
from benchkit.commands._tables import FORMATS, render

BOARDS = "painting_vision"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns the exit status (2 where a file is no submission)."""
    made = parser("benchkit leaderboard", __doc__)
    made.add_argument("benchmark", help="a benchmark with a board, such as painting_vision")
    made.add_argument("--from", dest="files", nargs="+", type=Path, required=True, metavar="FILE", help="submissions")
    made.add_argument("--format", choices=FORMATS, default="table", help="how the table is printed")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _rank(given), given.traceback)


def _rank(given: argparse.Namespace) -> int:
    from benchkit.conf.find import find_benchmark
    from benchkit.errors import UsageError
    from benchkit.submissions.board import rank, rows
    from benchkit.submissions.entry import read_entry

    if find_benchmark(given.benchmark).family != BOARDS:
        raise UsageError(f"{given.benchmark} has no board of submissions; {BOARDS} has one.")
    entries, worst = [], 0
    for path in dict.fromkeys(given.files):
        try:
            entries.append((str(path), read_entry(path)))
        except UsageError as error:
            say(str(error))
            worst = 2
    if not entries:
        raise UsageError("none of the files is a submission: nothing can be ranked.")
    board = rank(entries)
    print(f"benchmark {board.triple[0]}, taxonomy {board.triple[1]}, data {board.triple[2]}")
    print(render(*rows(board), given.format))
    for name, why in board.apart.items():
        print(f"not ranked: {name}: {why}")
    return worst
