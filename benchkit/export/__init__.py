"""Export: images through a frozen model, once, into files. What costs hours happens here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.errors import BenchkitError
    from benchkit.export.job import Job, Outcome
    from benchkit.registry import Component


def export(
    conf: str | Path | None,
    benchmarks: str | Sequence[str],
    *,
    arguments: Sequence[str] = (),
    components: Mapping[str, Component] | None = None,
    tag: str | None = None,
    checkpoint: str | Path | None = None,
    random: bool = False,
    limit: int | None = None,
    overwrite: bool = False,
    shard: str | None = None,
    finish: bool = False,
    outputs: str | Path | None = None,
    yes: bool = False,
    say: Callable[[str], None] | None = None,
    command: str = "",
) -> list[Outcome | BenchkitError]:
    """Make one tag per benchmark, or one per value of what is swept; every distinct image goes through the model once.

    Args:
        conf: a stem from configs/, a path, or None when `components` bring the backbone.
        benchmarks: instances or families.
        arguments: `key=value` settings; checkpoint, random, limit: short for three of them.
        components: parts at hand instead of names ("model.backbone": a registry.Component).
        tag: default from the conf; overwrite: make it again, also when other settings made it.
        shard: "I/N", from 0: this process's share of the images; default: what torchrun or SLURM say, else all of them.
        finish: forward none, only finish tags that are banked; command: kept in the record.
        outputs: outputs folder; yes: write more than 20 GB without asking.
        say: gets notes and plans, one paragraph each; default standard error.

    Returns:
        per benchmark and tag, in order: its Outcome, or the error that stopped it (each ends on its own).

    Raises:
        UsageError: the arguments cannot be read, or set what no benchmark named here reads.
        KeyboardInterrupt: after finished rows were written.
    """
    from benchkit.export.job import Job
    from benchkit.export.run import Options, export_jobs
    from benchkit.export.shares import Share, own_share

    options = Options(overwrite=overwrite, share=Share() if finish else own_share(shard), only_finish=finish, yes=yes)
    options.say = say or options.say
    given = [*arguments, *_short(checkpoint, random, limit)]
    named = [benchmarks] if isinstance(benchmarks, str) else list(dict.fromkeys(benchmarks))
    _refuse_idle(given, named)
    jobs = [j for each in named for j in _jobs(conf, each, given, components, outputs, tag, command, options.tell)]
    ends = iter(export_jobs([job for job in jobs if isinstance(job, Job)], options))
    return [next(ends) if isinstance(job, Job) else job for job in jobs]


def _jobs(
    conf: str | Path | None,
    benchmark: str,
    arguments: Sequence[str],
    components: Mapping[str, Component] | None,
    outputs: str | Path | None,
    tag: str | None,
    command: str,
    say: Callable[[str], None],
) -> list[Job | BenchkitError]:
    """One benchmark's jobs, after their notes were said; or why there can be none."""
    from benchkit.conf.build import build
    from benchkit.errors import BenchkitError
    from benchkit.export.job import Job
    from benchkit.export.sweep import varied
    from benchkit.store.outputs import Outputs

    try:
        built = build(conf, benchmark, arguments, components)
        job = Job(built, Outputs(outputs), tag, command)
        for note in (*built.notes, *job.dataset.notes()):
            say(note)
        return [*varied(job, lambda more: build(conf, benchmark, [*arguments, *more], components), say)]
    except BenchkitError as error:
        return [error]


def _refuse_idle(arguments: Sequence[str], named: Sequence[str]) -> None:
    """A setting for a benchmark that is not run would be a setting without effect."""
    from benchkit.conf.layers import read_arguments
    from benchkit.errors import UsageError

    idle = [name for name in read_arguments(arguments).values.get("benchmarks", {}) if name not in named]
    if idle:
        raise UsageError(
            f"benchmarks.{idle[0]}... is set, but this export runs {', '.join(named)}: name it, or drop the setting."
        )


def _short(checkpoint: str | Path | None, random: bool, limit: int | None) -> list[str]:
    flags = {"model.backbone.checkpoint": checkpoint, "model.random": "true" if random else None, "data.limit": limit}
    return [f"{key}={value}" for key, value in flags.items() if value is not None]
