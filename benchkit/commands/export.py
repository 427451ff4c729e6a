"""Run a frozen model over a benchmark's data once and keep features, predictions and truth in files.

examples:
  python -m benchkit.export --conf efficientnet_lite0 --benchmark classification
  python -m benchkit.export --conf my_model.yaml --benchmark classification retrieval data.root=photos
  python -m benchkit.export --conf vit_small --benchmark retrieval --random --limit 200
  python -m benchkit.export --benchmark classification --help     (its data layout, keys and metrics)
  torchrun --nproc-per-node=8 -m benchkit.export --conf vit_small --benchmark imagenette
  python -m benchkit.export --conf vit_small --benchmark imagenette --launcher slurm --jobs 8 --slurm partition=gpu gpus=1
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchkit.commands._shared import Parser, dashed, failed, guarded, parse, parser, say, take_settings

if TYPE_CHECKING:
    from benchkit.export.job import Outcome


_SECTIONS = ("data.", "model.", "eval.", "benchmarks.")


def add_export_flags(made: argparse.ArgumentParser) -> None:
    """The flags that `export` and `run` share."""
    made.add_argument("--conf", nargs="+", default=[], metavar="NAME|PATH", help="a stem from configs/, or a yaml file")
    made.add_argument("--benchmark", nargs="+", default=[], metavar="B", help="instances or families; `benchkit list`")
    made.add_argument("--tag", help="name of the experiment (default: the conf's stem, +head, +random, @folder)")
    made.add_argument("--checkpoint", metavar="FILE", help="weights: .safetensors, .pt or .pth; no pickled code is run")
    made.add_argument("--random", action="store_true", help="random weights: the twin that shows what training gave")
    made.add_argument("--limit", type=int, metavar="N", help="at most N items per split, stratified")
    made.add_argument("--overwrite", action="store_true", help="make the tag again, replacing what is there when done")
    made.add_argument(
        "--shard", metavar="I/N", help="do the I-th of N shares, counted from 0 (default: as torchrun or SLURM say)"
    )
    made.add_argument(
        "--launcher", choices=("local", "slurm"), help="do all shares as jobs: on this machine, or by SLURM"
    )
    made.add_argument("--jobs", type=int, metavar="N", help="with --launcher: shares of each conf; local: N at a time")
    made.add_argument(
        "--slurm", nargs="+", action="extend", default=[], metavar="KEY=VALUE",
        help="of each job: partition, time, gpus, mem, cpus, account, qos, array_parallelism ...",
    )  # fmt: skip
    made.add_argument("--finish", action="store_true", help="forward nothing; finish tags whose images are all banked")
    made.add_argument("--outputs", metavar="DIR", help="default: $BENCHKIT_OUTPUTS, else ./outputs")
    made.add_argument("--records", metavar="FILE.jsonl", help="append each record as a line")
    made.add_argument("--yes", action="store_true", help="write more than 20 GB without asking")
    made.add_argument(
        "settings", nargs="*", metavar="key=value", help="data. model. eval. or benchmarks.<name>. settings"
    )


def main(argv: Sequence[str] | None = None, prog: str = "benchkit export") -> int:
    """The command; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    made = parser(prog, __doc__)
    add_export_flags(made)
    if (named := asked_about(argv)) is not None:
        return guarded(lambda: benchmark_help(made, named), "--traceback" in argv)
    given = parse(made, argv)
    given.command = shlex.join([*prog.split(), *argv])
    return guarded(lambda: report(*run_export(given), given), given.traceback, given.command)


def asked_about(argv: Sequence[str]) -> list[str] | None:
    """The benchmarks of a call like `--benchmark X --help`; None when it is no such call."""
    argv = dashed(argv)
    if not {"-h", "--help"} & set(argv):
        return None
    made = Parser(add_help=False)
    made.add_argument("--benchmark", nargs="*", default=[])
    names = made.parse_known_args(argv)[0].benchmark
    return [name for name in names if "=" not in name] or None


def benchmark_help(made: Parser, names: Sequence[str]) -> int:
    """The flags, then layout, keys, metrics and source of each benchmark."""
    from benchkit.commands.list import describe

    print("\n\n".join([made.format_help().rstrip(), *(describe(name) for name in names)]))
    return 0


def run_export(given: argparse.Namespace) -> tuple[int, list[tuple[str, Outcome]]]:
    """Export every conf on every benchmark, here or as jobs; returns the worst status, and conf and outcome of what did not fail.

    Settings among the names are moved to `given.settings`.
    """
    check_names(given)
    if given.launcher:
        from benchkit.commands._launching import launched

        return launched(given)
    return _exported(given)


def check_names(given: argparse.Namespace) -> None:
    """Move settings to `given.settings`.

    Raises:
        UsageError: something is missing, or excludes something else.
    """
    from benchkit.errors import UsageError

    misplaced = [word for word in given.slurm if word.startswith(_SECTIONS)]
    given.slurm = [word for word in given.slurm if word not in misplaced]
    given.settings = take_settings(given.conf, given.benchmark) + misplaced + given.settings
    if not given.conf or not given.benchmark:
        raise UsageError(
            "say which model and what to measure: --conf NAME --benchmark NAME; `benchkit list` shows both."
        )
    for word in (*given.benchmark, *given.conf):
        if word.startswith(_SECTIONS):
            raise UsageError(f"{word} is a setting without a value: settings are key=value, {word}=VALUE.")
    if given.random and given.checkpoint:
        raise UsageError("--random takes random weights and --checkpoint those of a file: leave one out.")
    if given.tag and len(given.conf) > 1:
        raise UsageError("--tag names one experiment, and several confs were given: leave --tag out.")
    if not given.launcher and (given.jobs is not None or given.slurm):
        raise UsageError("--jobs and --slurm belong to --launcher local or --launcher slurm: name it.")


def _exported(given: argparse.Namespace) -> tuple[int, list[tuple[str, Outcome]]]:
    from benchkit.export import export
    from benchkit.export.job import Outcome

    worst, outcomes = 0, []
    for conf in given.conf:
        ends = export(
            conf, given.benchmark, arguments=given.settings, tag=given.tag, checkpoint=given.checkpoint, random=given.random,
            limit=given.limit, overwrite=given.overwrite, shard=given.shard, finish=given.finish, outputs=given.outputs,
            yes=given.yes, say=say, command=given.command,
        )  # fmt: skip
        for end in ends:
            if isinstance(end, Outcome):
                outcomes.append((conf, end))
            else:
                worst = max(worst, failed(end, given.traceback))
    return worst, outcomes


def share_of(argv: Sequence[str]) -> tuple[int, list[tuple[str, Outcome]]]:
    """An export in a job of a launcher: its exit status, and conf and outcome of every tag that did not fail."""
    prog = "python -m benchkit.export"
    made = parser(prog, __doc__)
    add_export_flags(made)
    given = parse(made, argv)
    given.command = shlex.join([*prog.split(), *argv])
    outcomes: list[tuple[str, Outcome]] = []

    def work() -> int:
        worst, ends = run_export(given)
        outcomes.extend(ends)
        return report(worst, ends, given)

    return guarded(work, given.traceback, given.command), outcomes


def report(worst: int, outcomes: Sequence[tuple[str, Outcome]], given: argparse.Namespace) -> int:
    """Say of every tag how it ended and what comes next; append its record where that was asked for."""
    for _, outcome in outcomes:
        if given.records and outcome.state != "waiting":
            from pathlib import Path

            from benchkit.provenance.record import append_record, read_record

            append_record(Path(given.records), read_record(outcome.folder) or {})
        print(_ending(outcome))
    return worst


def _ending(outcome: Outcome) -> str:
    share = f" (share {outcome.share}: {outcome.forwards:,} images forwarded here)" if outcome.share.count > 1 else ""
    next_step = f"python -m benchkit.eval {shlex.join([outcome.benchmark, '--tag', outcome.tag])}"
    return {
        "finished": f"finished {outcome.folder}{share}; score it with: {next_step}",
        "unchanged": f"{outcome.folder} is finished and nothing has changed; score it with: {next_step}",
        "waiting": f"{outcome.folder}: this share is done{share}; the tag is finished when the others are: {outcome.left}",
    }[outcome.state]
