"""Export: every distinct image through the model once for all benchmarks; then each tag is finished from the bank."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchkit.conf.diff import identity_view
from benchkit.errors import BenchkitError, UsageError
from benchkit.export.batches import Pictures, distinct, own
from benchkit.export.coverage import Wanted, absent, missing_shares
from benchkit.export.finish import FIT_THREADS, finish
from benchkit.export.job import Job, Outcome
from benchkit.export.pairs import divides, own_items, predict_share, unpredicted
from benchkit.export.shares import Share, cpus
from benchkit.export.texts import fill_texts
from benchkit.export.texts import lacking as lacking_texts
from benchkit.export.workers import forget, work_id, working
from benchkit.progress import Progress
from benchkit.provenance.identity import identity_hash
from benchkit.store.bank import Bank
from benchkit.store.files import clear_dead
from benchkit.store.lock import exclusive
from benchkit.store.usage import size_text

LARGEST = 1 << 28  # pixels of a model's input
ASK_ABOVE = 20 << 30  # bytes of new features above which --yes is needed


@dataclasses.dataclass
class Options:
    """How an export runs, beside the conf: nothing here can change a number."""

    overwrite: bool = False
    share: Share = Share()
    only_finish: bool = False
    yes: bool = False
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)

    def tell(self, text: str) -> None:
        """What one of several workers says for all of them."""
        if self.share.leads:
            self.say(text)


def export_jobs(jobs: Sequence[Job], options: Options) -> list[Outcome | BenchkitError]:
    """Make every job's tag; each ends on its own, and the outcome of a failed one is its error.

    Jobs whose backbone and preprocessing agree share one model, one bank and one pass over the images.
    """
    ends: dict[int, Outcome | BenchkitError] = {}
    groups: dict[str, list[int]] = defaultdict(list)
    for number, job in enumerate(jobs):
        try:
            if not options.overwrite and job.finished():
                ends[number] = _unchanged(job)
            else:
                job.refuse_changes(options.overwrite)
                groups[_backbone_key(job)].append(number)
        except BenchkitError as error:
            ends[number] = error
    if groups:  # only now: what is finished is left without importing torch
        from benchkit.export.model import sharing

        with sharing():
            for members in groups.values():
                ends.update(_export_group({n: jobs[n] for n in members}, options))
    return [ends[number] for number in range(len(jobs))]


def _unchanged(job: Job) -> Outcome:
    return Outcome(job.conf.benchmark, job.tag, job.folder, "unchanged", place=job.place)


def _told(job: Job, options: Options) -> Callable[[], None]:
    return lambda: options.tell(f"waiting for another process that works on {job.folder}")


def _backbone_key(job: Job) -> str:
    """Equal for jobs that use one model in one way."""
    view = identity_view(job.conf)
    model = {k: v for k, v in view["model"].items() if k not in ("features", "head")}
    data = {k: view["data"][k] for k in ("size", "resize", "resize_short", "decoder", "on_error")}
    features = job.conf.model.features
    return identity_hash(
        [model, data, job.family.dense, job.family.whole_views, features.dense_dtype, features.dense_stride]
    )


def _export_group(jobs: dict[int, Job], options: Options) -> dict[int, Outcome | BenchkitError]:
    first = next(iter(jobs.values()))
    ends: dict[int, Outcome | BenchkitError] = {}
    wants: dict[int, Wanted] = {}
    try:
        model = first.model
        for note in filter(None, model.backbone.notes):
            options.tell(f"{model.name}: {note}")
        if first.conf.model.random and not any(True for _ in model.backbone.parameters()):
            options.tell(f"{model.name}: it has no weights, so its random twin is itself.")
        for number, job in jobs.items():
            try:
                job.head.say = options.tell
                keys = model.keys(job)
                job.head.check_keys([str(key) for key in keys])
                model.check_grids(job, keys)
                wanted = Wanted(keys, job.prepare_head(model.side))
                if job.begin(options.overwrite, _told(job, options)):  # only now: what cannot be made leaves no trace
                    wants[number] = wanted
                else:
                    ends[number] = _unchanged(job)
            except BenchkitError as error:  # this job's layers do not exist; the others' may
                ends[number] = error
        with Bank(first.outputs.bank(model.folder, model.identity_hash), model.identity) as bank:
            ends.update(_export_known({n: jobs[n] for n in wants}, wants, model, bank, options))
    except BenchkitError as error:
        return {**dict.fromkeys(jobs, error), **ends}
    return ends


def _export_known(
    jobs: dict[int, Job], wants: dict[int, Wanted], model: Any, bank: Bank, options: Options
) -> dict[int, Outcome | BenchkitError]:
    """Fill the bank, then finish what it covers, also when the filling stopped early."""
    if not jobs:
        return {}
    timings: dict[str, Any] = {}
    stopped: BenchkitError | None = None
    pictures, together = distinct(list(jobs.values())), _together(wants.values())
    work = work_id(pictures)
    try:
        if not options.only_finish:
            with working(bank.folder, work, options.share) as beat:
                timings = _fill(jobs, pictures, together, model, bank, options, beat)
                _predict_shares(jobs.values(), model, bank, options, beat)
    except BenchkitError as error:
        stopped = error
    ends = {n: _settle(job, model, bank, wants[n], timings, options) for n, job in jobs.items()}
    waiting = {n: end for n, end in ends.items() if isinstance(end, Outcome) and end.state == "waiting"}
    if not waiting:
        forget(bank.folder, work)
        return ends
    command = next(iter(jobs.values())).command
    owed: dict[int, list[str]] = defaultdict(list)
    for job in (jobs[number] for number in waiting):
        for index, items in unpredicted(job, bank, model, options.share).items():
            owed[index] += items
    left = missing_shares(bank, pictures, together.columns, model, options.share, command, owed)
    return {**ends, **{n: _left(end, stopped, left, options) for n, end in waiting.items()}}


def _left(end: Outcome, stopped: BenchkitError | None, left: str, options: Options) -> Outcome | BenchkitError:
    """How a job ends whose images are not all banked."""
    if stopped:
        return stopped
    if options.only_finish:
        told = f" {left[0].upper()}{left[1:]}." if left else ""
        return UsageError(f"{end.left}: run the export, or the shards that are missing, without --finish.{told}")
    return dataclasses.replace(end, left=f"{end.left}; {left}" if left else end.left)


def _together(wants: Iterable[Wanted]) -> Wanted:
    """What several jobs read, each thing once."""
    wants = list(wants)
    keys = sorted({key for each in wants for key in each.keys}, key=str)
    return Wanted(keys, list(dict.fromkeys(prompt for each in wants for prompt in each.prompts)))


def _fill(
    jobs: dict[int, Job],
    pictures: Pictures,
    wanted: Wanted,
    model: Any,
    bank: Bank,
    options: Options,
    beat: Callable[[], None],
) -> dict[str, Any]:
    """Forward this process's share of what the bank lacks; returns times and counts."""
    share = options.share
    if lacking_texts(bank, wanted.prompts):
        fill_texts(model.forward(wanted.keys), bank, wanted.prompts, share)
    mine = own(pictures, model.preprocess, model.conf.model.batch_size, share)
    lacking = mine.taken(np.flatnonzero(bank.lacks(mine.digests, wanted.columns).any(axis=1)))
    if not len(lacking):
        return {"forwards": 0}
    _check_areas(model.preprocess, mine)
    forward = model.forward(wanted.keys)
    _check_disk(forward, bank, len(lacking), len(mine), options)
    data = next(iter(jobs.values())).conf.data.settings
    progress = Progress(len(lacking), "forward", "images", silent=not share.leads, each=beat)
    started = time.monotonic()
    rate = forward.fill(bank, lacking, wanted.columns, data.on_error, data.num_workers or cpus(), progress)
    return {"forwards": forward.images, "forward": time.monotonic() - started, "images_per_second": rate}


def _predict_shares(jobs: Iterable[Job], model: Any, bank: Bank, options: Options, beat: Callable[[], None]) -> None:
    """This worker's items of heads that read the images themselves; a single one predicts them when it finishes the tag."""
    share = options.share
    for job in jobs if share.count > 1 else ():
        if divides(job):
            items = own_items(job, bank, share)
            progress = Progress(len(items), "predict", "items", silent=not share.leads, each=beat)
            predict_share(job, items, model, FIT_THREADS, progress)


def _check_areas(preprocess: Any, pictures: Pictures) -> None:
    """Refuse images that would be made too large for memory: a thin one whose short side is set.

    Raises:
        UsageError: names the first.
    """
    shapes, which = pictures.shapes(preprocess)
    large = np.isin(which, [number for number, (height, width) in enumerate(shapes) if height * width > LARGEST])
    for row in np.flatnonzero(large)[:1].tolist():
        picture, (height, width) = pictures[row], shapes[which[row]]
        raise UsageError(
            f"{picture.view!r} of {picture.width} x {picture.height} pixels would become {width} x {height} for the model: "
            "set data.size (of the long side, with data.resize=pad), or leave it out."
        )


def _check_disk(forward: Any, bank: Bank, lacking: int, total: int, options: Options) -> None:
    """Say what will be written, and refuse what does not fit.

    Raises:
        UsageError: the disk has less room, or more than 20 GB are to be written without `yes`.
    """
    row = sum(_bytes(shape) * forward.dtype(key).itemsize for key, shape in forward.shapes.items()) + 4096
    expected, free = lacking * row, shutil.disk_usage(bank.folder).free
    options.tell(
        f"{total:,} images, {lacking:,} to forward, at most {size_text(expected)} of features to {bank.folder} "
        f"({size_text(free)} free)"
    )
    if expected > free:
        raise UsageError(
            f"the features need {size_text(expected)}, but {bank.folder} has {size_text(free)} free: use --outputs."
        )
    if expected > ASK_ABOVE and not options.yes:
        raise UsageError(
            f"this export writes {size_text(expected)}: say --yes; or ask for fewer layers, for maps of half the cells a side "
            "(model.features.dense_stride=2: a quarter of it), or for a head of pooled features."
        )


def _bytes(shape: Sequence[int]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product


def _settle(
    job: Job, model: Any, bank: Bank, wanted: Wanted, timings: dict[str, Any], options: Options
) -> Outcome | BenchkitError:
    """Finish a job whose images and prompts are all in the bank; otherwise other shards are still at it."""
    forwards = int(timings.get("forwards", 0))
    outcome = Outcome(job.conf.benchmark, job.tag, job.folder, "finished", forwards=forwards, place=job.place)
    outcome.share = options.share
    bank.scan()
    try:
        if left := absent(job, bank, wanted) or _owed(job, model, bank, options):
            return dataclasses.replace(outcome, state="waiting", left=left)
        with exclusive(job.outputs.lock(job.conf.benchmark, job.tag), _told(job, options)):
            for folder in (job.folder, job.outputs.targets("").parent, job.outputs.manifest("").parent):
                clear_dead(folder)
            if job.still_to_finish():
                started = time.monotonic()
                job.head.say = options.say  # whoever finishes the tag tells of it
                finish(job, bank, [str(k) for k in wanted.keys], timings, model)
                outcome.seconds = time.monotonic() - started
    except BenchkitError as error:
        return error
    return outcome


def _owed(job: Job, model: Any, bank: Bank, options: Options) -> str:
    """What other workers have not predicted yet, in words; whoever finishes by hand, or works alone, predicts it himself."""
    if options.share.count == 1 or options.only_finish:
        return ""
    owed = sum(map(len, unpredicted(job, bank, model, options.share).values()))
    return (
        f"{owed} of {len(job.test.items)} items of {job.conf.benchmark}/{job.tag} are not predicted yet" if owed else ""
    )
