"""Export and score: every conf on every benchmark, one table at the end.

examples:
  benchkit run --conf efficientnet_lite0 --benchmark classification retrieval
  benchkit run --conf vit_small resnet18 --benchmark retrieval data.root=photos
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from benchkit.commands._shared import failed, guarded, parse, parser, say
from benchkit.commands._tables import FORMATS
from benchkit.commands.eval import show
from benchkit.commands.export import add_export_flags, asked_about, benchmark_help, run_export


def main(argv: Sequence[str] | None = None, prog: str = "benchkit run") -> int:
    """The command; returns the exit status."""
    made = parser(prog, __doc__)
    add_export_flags(made)
    made.add_argument("--overwrite-eval", action="store_true", help="replace scores, also those of other eval settings")
    made.add_argument("--format", choices=FORMATS, default="table", help="how the scores are printed")
    argv = sys.argv[1:] if argv is None else argv
    if (named := asked_about(argv)) is not None:
        return guarded(lambda: benchmark_help(made, named), "--traceback" in argv)
    given = parse(made, argv)
    given.command = shlex.join([*prog.split(), *argv])
    return guarded(lambda: run_all(given), given.traceback)


def run_all(given: argparse.Namespace) -> int:
    """Export, then score what is finished."""
    from benchkit.errors import BenchkitError
    from benchkit.eval import eval_arguments, evaluate

    worst, outcomes = run_export(given)
    found = []
    for conf, outcome in outcomes:
        if outcome.state == "waiting":
            say(f"{outcome.folder}: this share is done; score it when the other shards are.")
            continue
        if outcome.state == "unchanged":
            say(f"{outcome.folder} is finished and nothing has changed: nothing was forwarded or fitted.")
        try:
            found.append(
                evaluate(
                    outcome.benchmark,
                    outcome.tag,
                    outputs=given.outputs,
                    conf=conf,
                    arguments=eval_arguments(given.settings, outcome.benchmark),
                    overwrite_eval=given.overwrite_eval,
                    records=given.records,
                )
            )
        except BenchkitError as error:
            worst = max(worst, failed(error, given.traceback))
    show([each.record for each in found], given.format)
    for each in found:
        say(f"files: {each.folder}")
    return worst
