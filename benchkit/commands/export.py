"""Run a frozen model over a benchmark's data once and keep features, predictions and truth in files.

examples:
  python -m benchkit.export --conf efficientnet_lite0 --benchmark classification
  python -m benchkit.export --conf my_model.yaml --benchmark classification retrieval data.root=photos
  python -m benchkit.export --conf vit_small --benchmark retrieval --random --limit 200
  python -m benchkit.export --benchmark classification --help     (its data layout, keys and metrics)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchkit.commands._shared import dashed, guarded, parser, say, take_settings


def add_export_flags(made: argparse.ArgumentParser) -> None:
    """The flags that `export` and `run` share."""
    made.add_argument("--conf", nargs="+", default=[], metavar="NAME|PATH", help="a stem from configs/, or a yaml file")
    made.add_argument("--benchmark", nargs="+", default=[], metavar="B", help="instances or families; `benchkit list`")
    made.add_argument("--tag", help="name of the experiment (default: the conf's stem and what differs)")
    made.add_argument("--checkpoint", metavar="FILE", help="weights: .safetensors, .pt or .pth; no pickled code is run")
    made.add_argument("--random", action="store_true", help="random weights: the twin that shows what training gave")
    made.add_argument("--limit", type=int, metavar="N", help="at most N items per split, stratified")
    made.add_argument("--overwrite", action="store_true", help="make the tag again, replacing what is there when done")
    made.add_argument("--shard", default="0/1", metavar="I/N", help="do the I-th of N shares, counted from 0")
    made.add_argument("--finish", action="store_true", help="forward nothing; finish tags whose images are all banked")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument("--records", metavar="FILE.jsonl", help="append each record as a line")
    made.add_argument("--yes", action="store_true", help="write more than 20 GB without asking")
    made.add_argument(
        "settings", nargs="*", metavar="key=value", help="data. model. eval. or benchmarks.<name>. settings"
    )


def main(argv: Sequence[str] | None = None, prog: str = "benchkit export") -> int:
    """The command; returns the exit status."""
    argv = dashed(sys.argv[1:] if argv is None else argv)
    if {"-h", "--help"} & set(argv) and "--benchmark" in argv:
        return _benchmark_help(argv)
    made = parser(prog, __doc__)
    add_export_flags(made)
    given = made.parse_args(argv)
    return guarded(lambda: run_export(given, _report)[0], given.traceback)


def _benchmark_help(argv: Sequence[str]) -> int:
    from benchkit.commands.list import describe

    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--benchmark", nargs="+")
    names = made.parse_known_args(argv)[0].benchmark

    def work() -> int:
        print("\n\n".join(describe(name) for name in names if "=" not in name))
        return 0

    return guarded(work, "--traceback" in argv)


def run_export(given: argparse.Namespace, report: object) -> tuple[int, list]:
    """Export every conf on every benchmark; returns the worst status and the outcomes."""
    from benchkit.errors import UsageError
    from benchkit.export import export
    from benchkit.export.run import Outcome

    settings = take_settings(given.conf, given.benchmark, given.settings) + given.settings
    if not given.conf or not given.benchmark:
        raise UsageError(
            "say which model and what to measure: --conf NAME --benchmark NAME; `benchkit list` shows both."
        )
    if given.tag and len(given.conf) > 1:
        raise UsageError("--tag names one experiment, and several confs were given: leave --tag out.")
    worst, outcomes = 0, []
    for conf in given.conf:
        ends = export(
            conf, given.benchmark, arguments=settings, tag=given.tag, checkpoint=given.checkpoint, random=given.random,
            limit=given.limit, overwrite=given.overwrite, shard=given.shard, finish=given.finish, outputs=given.outputs,
            yes=given.yes, say=say, command=" ".join(["benchkit export", *sys.argv[1:]]),
        )  # fmt: skip
        for end in ends:
            if isinstance(end, Outcome):
                outcomes.append(end)
            else:
                say(str(end))
                worst = max(worst, end.status)
    for outcome in outcomes:
        report(outcome, given)  # type: ignore[operator]
    return worst, outcomes


def _report(outcome: object, given: argparse.Namespace) -> None:
    from benchkit.export.run import Outcome

    assert isinstance(outcome, Outcome)
    if given.records and outcome.state == "finished":
        from pathlib import Path

        from benchkit.eval._evaluation import append_record
        from benchkit.provenance.record import read_record

        append_record(Path(given.records), read_record(outcome.folder) or {})
    next_step = f"python -m benchkit.eval.{outcome.benchmark} --tag {outcome.tag}"
    text = {
        "finished": f"finished {outcome.folder}; score it with: {next_step}",
        "unchanged": f"{outcome.folder} is finished and nothing has changed; score it with: {next_step}",
        "waiting": f"{outcome.folder}: this share is done; the tag is finished when the other shards are",
    }[outcome.state]
    print(text)
