"""From a full bank to a finished tag: features, truth, head, predictions, then the record. No image is forwarded here,
and none decoded but where the truth is made from the image itself (corners, orientation) or the head reads images.

Everything is built under `.parts/` and moved into place file by file, the record last, so a kill at any moment leaves
either the old tag, or a folder whose record does not match its files and which the next run finishes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.errors import RunError
from benchkit.export.describe import describe
from benchkit.export.forward import NOT_FINITE
from benchkit.export.job import Job
from benchkit.export.pairs import predict_items
from benchkit.export.split import Split, check_left
from benchkit.export.texts import read_texts
from benchkit.export.truth import FramedTruth
from benchkit.export.views import Views
from benchkit.features import FeatureKey
from benchkit.heads.base import Head
from benchkit.provenance.record import NAME, sealed
from benchkit.registry import find
from benchkit.store.bank import Bank
from benchkit.store.columns import Ragged
from benchkit.store.content import file_hash
from benchkit.store.features import TagFeatures, write_features
from benchkit.store.files import changing, link_or_copy, put_in_place, replacing, sync, write_json
from benchkit.store.items import ArrayItems, TableItems
from benchkit.store.maps import Maps
from benchkit.store.points import Points
from benchkit.store.table import Table, write_table

if TYPE_CHECKING:
    from benchkit.export.model import LoadedModel

FIT_THREADS = min(8, os.cpu_count() or 1)  # fixed, since the bits of a fit may depend on it


def finish(job: Job, bank: Bank, keys: Sequence[str], timings: Mapping[str, Any], model: LoadedModel) -> None:
    """Build and publish every file of the tag; whoever calls it holds the tag's lock.

    Args:
        job: the tag.
        bank: covers all views of the job, and the prompts of its head.
        keys: the feature keys that the head reads and the tag keeps.
        timings: seconds by stage so far.
        model: the backbone, for what the head and the record have to know of it.
    """
    started = time.monotonic()
    build = job.parts / "build"
    with changing(build):
        if build.exists():
            shutil.rmtree(build)
        build.mkdir(parents=True)
    images = [job.facts[view].sha256 for view in job.views]
    skipped = _skipped(job, bank)
    check_left(job.splits, skipped)
    good = [(view, image) for view, image in zip(job.views, images, strict=True) if image not in bank.reasons]
    views, hashes = [v for v, _ in good], [i for _, i in good]
    write_features(build, bank, views, hashes, keys)
    write_table(build / "thumbs.h5", "thumbs", views, {"thumb": _thumbs(bank, hashes)})
    items = _items(job.test, skipped)
    truth = FramedTruth(job.dataset, model.preprocess, job.family.derive, job.family.complete)
    targets = {"targets": _write_targets(job, job.test, items, truth)}
    link_or_copy(job.outputs.targets(targets["targets"]), build / "targets.h5")
    if job.train is not None:
        targets["train_targets"] = _write_targets(job, job.train, _items(job.train, skipped), truth)
    prompts = job.prepare_head(model.side)
    if prompts:
        job.head.read_texts(read_texts(bank, prompts))
    head = _predict(job, build, keys, items, targets.get("train_targets"), model)
    job.write_conf(build / "conf.yaml")
    record = describe(job, build, bank, keys, targets, skipped, model.facts)
    record["head"] = {"name": job.conf.head.name, **head, "threads": FIT_THREADS}
    record["timings"] = {**timings, "finish": time.monotonic() - started}
    write_json(build / NAME, sealed(record))
    with changing(job.folder):
        _publish(build, job.folder)
        shutil.rmtree(job.parts)


def _thumbs(bank: Bank, images: Sequence[str]) -> Ragged:
    """The thumbnails, a thousand in memory at a time."""

    def each() -> Iterator[np.ndarray]:
        for start in range(0, len(images), 1024):
            yield from bank.read("thumb", images[start : start + 1024])

    return Ragged(np.dtype(np.uint8), 1, each)


def _skipped(job: Job, bank: Bank) -> dict[str, str]:
    """Items left out: unreadable by their file's header, or skipped in the forward, maybe by an export of another tag.

    Raises:
        RunError: there are such rows in the bank, and this job's settings say stop.
    """
    skipped = dict(job.skipped)
    for split in job.splits:
        for item in split.items:
            for view in split.dataset.views(item):
                reason = bank.reasons.get(job.facts[view].sha256)
                if reason:
                    _refuse(job, view, reason)
                    skipped.setdefault(item, f"{view}: {reason}")
    return skipped


def _refuse(job: Job, view: str, reason: str) -> None:
    policy, key = job.conf.data.settings.on_error, "data.on_error"
    if reason == NOT_FINITE:
        policy, key = job.conf.model.on_nonfinite, "model.on_nonfinite"
    if policy == "stop":
        raise RunError(
            f"{view!r}: {reason}, as an export that leaves such images out has found. Mend the cause, or leave them out "
            f"here too with {key}=skip --overwrite."
        )


def _items(split: Split, skipped: Mapping[str, str]) -> list[str]:
    return [item for item in split.items if item not in skipped]


def _write_targets(job: Job, split: Split, items: Sequence[str], truth: FramedTruth) -> str:
    """Write the truth of a split once, under its content hash; returns the hash."""
    fresh = job.parts / f"targets-{split.name}.h5"
    write_table(fresh, "targets", items, split.columns(items, truth), meta=split.dataset.meta())
    content = file_hash(fresh, "targets")
    shared = job.outputs.targets(content)
    if not _holds(shared, content):
        link_or_copy(fresh, shared)
    return content


def _holds(shared: Path, content: str) -> bool:
    try:
        return file_hash(shared, "targets") == content
    except RunError:  # missing or damaged: what was just made replaces it
        return False


def _predict(
    job: Job,
    build: Path,
    keys: Sequence[str],
    items: Sequence[str],
    train_targets: str | None,
    model: LoadedModel,
) -> dict[str, Any]:
    """Fit on the bank and the cached train targets, predict the evaluated items; returns what the record says of the head.

    A pooled head reads all layers asked for side by side, as DINOv2's linear probe reads its last four.
    """
    head, key = job.head, "+".join(keys)
    whole: dict[str, np.ndarray] = {}
    if train_targets is not None:
        with Table(job.outputs.targets(train_targets), "targets") as table:
            truth = TableItems(table)
            if job.family.floor_head:
                whole.update({f"floor/{k}": v for k, v in _floor(job, truth).items()})
            with _features(job, build, keys, truth.names, model) as features:
                head.read_given(_given(job, truth))
                head.fit(key, features, truth, job.conf.model.seed, FIT_THREADS)
    facts: dict[str, Any] = {}
    with _features(job, build, keys, items, model) as features, Table(build / "targets.h5", "targets") as table:
        given = _given(job, TableItems(table, items))
        if isinstance(features, Views):
            parts = predict_items(job, features, given, model, FIT_THREADS)
            fields, facts["platforms"] = parts.columns(items), parts.platforms
        else:
            head.read_given(given)
            fields = head.predict(key, features, FIT_THREADS)
        log = head.log()
        whole.update({f"fit/{name}": np.array(value) for name, value in log.items()})
        write_table(build / "predictions.h5", "predictions", items, fields, whole, head.meta())
    _write_state(head, build / "head.safetensors")
    return {"log": log, **facts}


def _given(job: Job, truth: TableItems) -> ArrayItems:
    """What a head may know of the truth."""
    return ArrayItems(truth.names, {name: truth.read(name) for name in job.dataset.given if name in truth})


def _features(
    job: Job, build: Path, keys: Sequence[str], items: Sequence[str], model: LoadedModel
) -> contextlib.AbstractContextManager[Any]:
    """What a head reads of some items: maps one by one (and the frames, for a head of pixels that reads nothing), pooled rows
    in memory, or the images themselves."""
    kind, preprocess = job.head.wants().kind, model.preprocess
    if kind == "pool" or (kind is None and not job.family.dense):
        return contextlib.nullcontext(_pooled(job, build, keys, items))
    views = [view for item in items for view in job.dataset.views(item)[: job.head.wants().views]]
    if kind == "images":
        return contextlib.nullcontext(Views(job.dataset, job.facts, views, preprocess, str(model.device)))
    sizes = [(job.facts[view].height, job.facts[view].width) for view in views]
    if keys and FeatureKey.parse(keys[0]).points:
        resized = np.array([preprocess.resized(*size) for size in sizes]).reshape(-1, 2)
        return Points(build, views, (np.array(sizes).reshape(-1, 2) / resized)[:, ::-1], np.array(sizes))
    frames = np.array([preprocess.frame(*size) for size in sizes], np.int32).reshape(-1, 2)
    extents = np.array([preprocess.extent(*size) for size in sizes]).reshape(-1, 2)
    return Maps(build, items if len(views) == len(items) else views, views, keys, frames, extents)


def _pooled(job: Job, build: Path, keys: Sequence[str], items: Sequence[str]) -> ArrayItems:
    """Pooled features by item: (N, C), of items with several views (N, V, C)."""
    views = [job.dataset.views(item) for item in items]
    if not keys:
        return ArrayItems(items, {})
    with TagFeatures(build, [view for each in views for view in each]) as features:
        joined = features.joined(keys)
    count = len(views[0]) if views else 1
    if count == 1:
        return ArrayItems(items, joined.fields, joined.meta)
    rows = {key: value.reshape(len(items), count, -1) for key, value in joined.fields.items()}
    return ArrayItems(items, rows, joined.meta)


def _floor(job: Job, truth: Any) -> dict[str, Any]:
    component = find("heads", job.family.floor_head)
    constant: Head = component.build(component.settings())
    constant.fit("", None, truth, job.conf.model.seed, FIT_THREADS)  # type: ignore[arg-type]
    return constant.state()


def _write_state(head: Head, path: Path) -> None:
    state = head.state()
    if not state:
        return
    from safetensors.numpy import save

    with replacing(path) as unfinished:  # written here, since what fails of the disk is no OSError of safetensors'
        unfinished.write_bytes(save({name: np.ascontiguousarray(value) for name, value in state.items()}))


def _publish(build: Path, folder: Path) -> None:
    """Move the files into the tag's folder. The old record goes first, since without one nothing is evaluated: old and
    new files beside each other are never taken for one experiment. The new record comes last."""
    (folder / NAME).unlink(missing_ok=True)
    names = sorted(p.relative_to(build) for p in build.rglob("*") if p.is_file() and p.name != NAME)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        put_in_place(build / name, folder / name)
    for old in set(_artefacts(folder)) - {folder / name for name in names}:
        old.unlink()
    sync(folder)
    put_in_place(build / NAME, folder / NAME)


def _artefacts(folder: Path) -> list[Path]:
    """Files that an export, an eval or a report leaves; whatever else lies there is the user's."""
    suffixes = (".h5", ".json", ".yaml", ".safetensors", ".png")
    parts = (folder / "features").glob("part-*.h5")
    return [p for p in (*folder.iterdir(), *parts) if p.is_file() and p.suffix in suffixes]
