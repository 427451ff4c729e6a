"""Export and score: every conf on every benchmark, one table at the end.

examples:
  benchkit run --conf efficientnet_lite0 --benchmark classification retrieval
  benchkit run --conf vit_small resnet18 --benchmark retrieval data.root=photos
  benchkit run --conf vit_small --benchmark classification model.features.layers=all       (a tag per layer, one forward)
  benchkit run --conf vit_small --benchmark classification model.head.name=ridge model.head.shots=1,5,10
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchkit.commands._shared import failed, guarded, parse, parser, say
from benchkit.commands._sweeps import sweep_picture, sweep_rows
from benchkit.commands._tables import FORMATS, notes, render
from benchkit.commands.eval import show
from benchkit.commands.export import add_export_flags, asked_about, benchmark_help, run_export

if TYPE_CHECKING:
    from benchkit.eval._evaluation import Evaluation
    from benchkit.export.job import Outcome


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
    return guarded(lambda: run_all(given), given.traceback, given.command)


def run_all(given: argparse.Namespace) -> int:
    """Export, then score what is finished."""
    from benchkit.errors import BenchkitError
    from benchkit.eval import eval_arguments, evaluate

    worst, outcomes = run_export(given)
    found = []
    for conf, outcome in outcomes:
        if outcome.state == "waiting":
            say(f"{outcome.folder}: this share is done; score it when the other shards are: {outcome.left}.")
            continue
        if outcome.state == "unchanged":
            say(f"{outcome.folder} is finished and nothing has changed: nothing was forwarded or fitted.")
        try:
            end = evaluate(
                outcome.benchmark,
                outcome.tag,
                outputs=given.outputs,
                conf=conf,
                arguments=eval_arguments(given.settings, outcome.benchmark),
                overwrite_eval=given.overwrite_eval,
                records=given.records,
            )
            found.append((outcome, end))
        except BenchkitError as error:
            worst = max(worst, failed(error, given.traceback))
    _show(found, given.format)
    for _, each in found:
        say(f"files: {each.folder}")
    return worst


def _show(found: Sequence[tuple[Outcome, Evaluation]], style: str) -> None:
    """The scores; a sweep's as a row per tag, with a picture."""
    show([each.record for outcome, each in found if outcome.place is None], style)
    sweeps: dict[tuple[str, str], list[tuple[tuple[str, float], Any]]] = {}
    for outcome, each in found:
        if outcome.place is not None:
            model = each.record["backbone"]["name"]
            sweeps.setdefault((outcome.benchmark, model), []).append((outcome.place, each.record))
    for (benchmark, _), swept in sweeps.items():
        print(render(*sweep_rows(swept), style))
        print(notes(swept[0][1]), file=sys.stdout if style == "table" else sys.stderr)
        folder = next(each.folder.parent for outcome, each in found if outcome.benchmark == benchmark)
        say(f"picture: {sweep_picture(folder, swept)}")
