"""Predictions of heads that read the images themselves: item by item, and what is finished is kept."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.conf.diff import identity_view
from benchkit.errors import RunError, UsageError, out_of_memory
from benchkit.export.forward import PART_BYTES, PART_SECONDS
from benchkit.export.inputs import own_code
from benchkit.export.job import Job
from benchkit.export.shares import Share
from benchkit.export.views import Views
from benchkit.heads.base import Head
from benchkit.images import Unreadable
from benchkit.progress import Progress, track
from benchkit.store.bank import Bank
from benchkit.store.columns import Column
from benchkit.store.items import ArrayItems
from benchkit.store.lock import exclusive
from benchkit.store.predicted import Predicted

if TYPE_CHECKING:
    from benchkit.export.model import LoadedModel

VERSION = 1  # raised when the same identity could give other predictions


def predict_items(job: Job, views: Views, given: ArrayItems, model: LoadedModel, threads: int) -> Predicted:
    """Predict the evaluated items that no part holds yet; whoever calls it holds the tag's lock.

    Args:
        job: the tag; its head is fitted, if it learns.
        views: of the items, to choose from.
        given: the items in order, with what the head may know of their truth.
        model: for what the inputs are like and where the head runs.
        threads: of the CPU.

    Returns:
        the parts, which hold all of the items.

    Raises:
        RunError: an image cannot be decoded, a prediction is not finite, or memory does not suffice; what was finished is kept.
    """
    parts = _parts(job, given, model)
    rows = [row for row, item in enumerate(given.names) if item not in parts]
    if 0 < len(rows) < len(given.names):
        job.head.say(f"{len(given.names) - len(rows):,} of {len(given.names):,} items were predicted before a stop.")
    try:
        for row in track(rows, len(rows), "predict", "items"):
            item = given.names[row]
            fields = {name: given.read(name)[row : row + 1] for name in given.fields}
            job.head.read_given(ArrayItems([item], fields))
            parts.add(item, _predicted(job.head, item, views.of(_named(job, item)), threads))
    finally:  # whatever stops the loop, finished items are kept
        parts.close()
    return parts


def divides(job: Job) -> bool:
    """Whether workers can each predict some of the items before the tag is finished: the head reads the images themselves,
    learns nothing, and is told nothing of the truth.
    """
    return job.head.wants().kind == "images" and not job.has_train and not job.dataset.given


def own_items(job: Job, bank: Bank, share: Share) -> list[str]:
    """The items that a worker predicts: every `count`-th of those that nothing is known against."""
    items = [item for item in job.test.items if item not in job.skipped]
    good = [i for i in items if not any(job.facts[v].sha256 in bank.reasons for v in job.dataset.views(i))]
    return good[share.index :: share.count]


def predict_share(job: Job, items: Sequence[str], model: LoadedModel, threads: int, progress: Progress) -> None:
    """Predict a worker's items; what an image's damage keeps from being predicted is left to `finish`.

    Args:
        job: a tag whose items can be divided.
        items: of `own_items`.
        model, threads: as of `predict_items`.
        progress: counts the items.

    Raises:
        RunError: as of `predict_items`.
    """
    with exclusive(job.outputs.lock(job.conf.benchmark, job.tag)):
        if not job.still_to_finish():
            return
        parts = _parts(job, ArrayItems([], {}), model)
    names = [view for item in items for view in _named(job, item)]
    views = Views(job.dataset, job.facts, names, model.preprocess, str(model.device))
    try:
        for item in items:
            if item not in parts:
                job.head.read_given(ArrayItems([item], {}))
                _add_readable(job, parts, item, views, threads)
            progress.advance()
    finally:
        parts.close()
        progress.finish()


def _add_readable(job: Job, parts: Predicted, item: str, views: Views, threads: int) -> None:
    try:
        parts.add(item, _predicted(job.head, item, views.of(_named(job, item)), threads))
    except RunError as error:
        if not isinstance(error.__cause__, Unreadable) or job.conf.data.settings.on_error == "stop":
            raise


def unpredicted(job: Job, bank: Bank, model: LoadedModel, share: Share) -> dict[int, list[str]]:
    """By share, the items that nobody has predicted yet, of a tag whose items can be divided and that is not finished."""
    with exclusive(job.outputs.lock(job.conf.benchmark, job.tag)):
        if not divides(job) or not job.still_to_finish():
            return {}
        parts = _parts(job, ArrayItems([], {}), model)
    shares = [dataclasses.replace(share, index=index) for index in range(share.count)]
    dealt = {each.index: [i for i in own_items(job, bank, each) if i not in parts] for each in shares}
    return {index: left for index, left in dealt.items() if left}


def _named(job: Job, item: str) -> list[str]:
    return list(job.dataset.views(item)[: job.head.wants().views])


def _parts(job: Job, given: ArrayItems, model: LoadedModel) -> Predicted:
    """What is predicted of all evaluated items so far."""
    named = {item: _named(job, item) for item in job.test.items if item not in job.skipped}
    images = {item: "+".join(job.facts[view].sha256 for view in each) for item, each in named.items()}
    identity = _identity(job, model, given)
    folder = job.parts / "pairs"
    return Predicted(folder, identity, model.platform, images, PART_BYTES, PART_SECONDS, job.head.say)


def _predicted(head: Head, item: str, views: Views, threads: int) -> Mapping[str, Column]:
    try:
        columns = head.predict("", views, threads)  # type: ignore[arg-type]
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise RunError(
            f"out of memory with {item!r}: let the head see smaller images (data.size=840, say, the long side; with "
            "--overwrite), or use another model.device."
        ) from error
    for name, column in columns.items():
        values = [column] if isinstance(column, np.ndarray) else list(getattr(column, "each", list)())
        if any(value.dtype.kind == "f" and not np.isfinite(value).all() for value in values):
            raise RunError(f"the head gave NaN or infinity as {name} of {item!r}. What was finished is kept.")
    return columns


def _identity(job: Job, model: LoadedModel, given: ArrayItems) -> dict[str, Any]:
    """All that predictions depend on beside the images."""
    return {
        "version": VERSION,
        "head": identity_view(job.conf)["model"]["head"],
        "code": own_code(job.conf),
        "facts": job.head.protocol(),
        "state": _digest(job.head.state()),
        "given": _digest(given.fields),
        "items": hashlib.sha256("\n".join(given.names).encode()).hexdigest() if given.fields else None,
        "preprocess": dataclasses.asdict(model.preprocess),
    }


def _digest(arrays: Mapping[str, Any]) -> str | None:
    """sha256 of arrays, or lists of them, by name; None of nothing."""
    if not arrays:
        return None
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = arrays[name] if isinstance(arrays[name], list) else [arrays[name]]
        for value in map(np.asarray, values):
            digest.update(f"{name} {value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def check_images(job: Job, backbone: Any) -> None:
    """Refuse what has no meaning for a head that reads the images themselves.

    Raises:
        UsageError: a backbone with features of its own, layers, or a precision, is named beside it.
    """
    head, model = job.conf.head.name, job.conf.model
    if backbone.pools:
        raise UsageError(
            f"the head {head} reads the images themselves and nothing of {backbone.name}: set model.backbone.name=pixels."
        )
    idle = {"model.features.layers": model.features.layers != "final", "model.precision": model.precision != "fp32"}
    for key in [key for key, given in {**idle, "model.compile": model.compile}.items() if given]:
        raise UsageError(f"{key} has no effect on the head {head}, which reads the images themselves: leave it out.")
