"""Score finished exports from their files: no torch, no data set, seconds.

examples:
  python -m benchkit.eval.classification --tag efficientnet_lite0
  python -m benchkit.eval retrieval --tag efficientnet_lite0 efficientnet_lite0+random --format markdown
  python -m benchkit.eval.classification --tag mine --overwrite_eval eval.ece_bins=10
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchkit.commands._shared import failed, guarded, parse, parser, say, take_settings
from benchkit.commands._tables import FORMATS, apart, notes, render, scores_rows

if TYPE_CHECKING:
    from pathlib import Path

    from benchkit.store.outputs import Outputs


def main(argv: Sequence[str] | None = None, prog: str = "benchkit eval", family: str | None = None) -> int:
    """The command, for any benchmark or for the one of a module of its own; returns the exit status."""
    made = parser(prog, __doc__)
    if family is None:
        made.add_argument("benchmark", help="instance or family, as it was exported")
    made.set_defaults(**({} if family is None else {"benchmark": family}))
    made.add_argument(
        "--tag", nargs="+", default=[], metavar="T", help="experiments to score; * stands for any letters"
    )
    made.add_argument("--conf", help="a conf whose benchmarks.<name>.eval settings are used")
    made.add_argument("--overwrite-eval", action="store_true", help="replace scores, also those of other eval settings")
    made.add_argument("--plot", action="store_true", help="leave pictures of items and of whole sets beside the scores")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument("--records", metavar="FILE.jsonl", help="append each record as a line")
    made.add_argument("--format", choices=FORMATS, default="table", help="how the scores are printed")
    made.add_argument("settings", nargs="*", metavar="key=value", help="eval. settings")
    given = parse(made, sys.argv[1:] if argv is None else argv)
    return guarded(lambda: run_eval(given), given.traceback)


def main_of(family: str) -> int:
    """`python -m benchkit.eval.<family>`."""
    return main(sys.argv[1:], prog=f"python -m benchkit.eval.{family}", family=family)


def run_eval(given: argparse.Namespace) -> int:
    """Score every tag; each ends on its own, and the worst status is returned."""
    from benchkit.errors import BenchkitError, UsageError
    from benchkit.eval import evaluate
    from benchkit.store.outputs import Outputs

    outputs = Outputs(given.outputs)
    settings = take_settings(given.tag, is_name=lambda tag: _exists(outputs, given.benchmark, tag)) + given.settings
    if not given.tag:
        raise UsageError("say what to score: --tag NAME; `benchkit list --tags` shows what was exported.")
    found, worst = [], 0
    for tag in _matching(outputs, given.benchmark, given.tag):
        try:
            found.append(
                evaluate(
                    given.benchmark,
                    tag,
                    outputs=given.outputs,
                    conf=given.conf,
                    arguments=settings,
                    overwrite_eval=given.overwrite_eval,
                    records=given.records,
                )
            )
        except BenchkitError as error:
            worst = max(worst, failed(error, given.traceback))
    show([each.record for each in found], given.format)
    if given.plot:
        _plot([each.folder for each in found])
    for each in found:
        say(f"{'scored' if each.fresh else 'scored before, nothing has changed'}: {each.folder}")
    return worst


def _plot(folders: Sequence[Path]) -> None:
    """Leave pictures of items and plots of whole sets in the tags' folders, and what they show together beside these."""
    from benchkit.experiments.experiment import Experiment
    from benchkit.experiments.pictures import contact_sheet, save_plots
    from benchkit.experiments.plots import joint_plots, plots

    experiments = [Experiment(folder) for folder in folders]
    for each in experiments:
        print(f"picture: {contact_sheet(each.folder, each.record)}")
        for path in save_plots(each.folder, plots(each), f"{each.benchmark} / {each.tag}"):
            print(f"picture: {path} (and .pdf)")
    if len(experiments) > 1:
        title = f"{experiments[0].benchmark}, {len(experiments)} tags"
        for path in save_plots(folders[0].parent, joint_plots(experiments), title):
            print(f"picture: {path} (and .pdf)")


def _matching(outputs: Outputs, benchmark: str, tags: Sequence[str]) -> list[str]:
    """The tags; one with * stands for all there are that fit, such as those of a sweep."""
    from benchkit.store.outputs import fitting

    found: list[str] = []
    for tag in tags:
        found += fitting(outputs.tags(benchmark), tag) or [tag]
    return list(dict.fromkeys(found))


def _exists(outputs: Outputs, benchmark: str, tag: str) -> bool:
    """A tag may have `=` in its name, like a setting: it is a tag if its folder is there."""
    from benchkit.errors import UsageError

    try:
        return outputs.tag(benchmark, tag).is_dir()
    except UsageError:
        return False


def show(records: Sequence[dict], style: str) -> None:
    """Print the scores, and what must be known beside them: on standard error where the table is to be pasted."""
    if not records:
        return
    print(render(*scores_rows(records, style), style))
    for line in [*map(notes, records), *apart(records)]:
        print(line, file=sys.stdout if style == "table" else sys.stderr)
