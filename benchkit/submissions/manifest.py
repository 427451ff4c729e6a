"""data_manifest.json: the frames of a Painting Vision folder as they were, byte for byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.datasets._listing import tree
from benchkit.datasets._painting_table import Frame, find_table, read_frames
from benchkit.errors import UsageError, some
from benchkit.images import Unreadable, inspect
from benchkit.metrics.painting import TAXONOMY_VERSION
from benchkit.progress import track
from benchkit.provenance.painting import painting_id

NAME, EVALUATED = "data_manifest.json", "test"
FRAME_KEYS = {"file": str, "mask": str, "sha256": str, "mask_sha256": str, "split": str, "wall_id": str, "size": list}


def build_manifest(root: Path, table: str | None = None) -> dict[str, Any]:
    """Manifest of a folder.

    Returns:
        `dataset_id` of the split test (of the only split, where there is one), `taxonomy_version`, `dataset_ids` of every
        split, and `frames`: file, mask, sha256, mask_sha256, split, wall_id, size (height, width).

    Raises:
        UsageError: the table is wrong, a file is missing or is no image; names it.
    """
    listed = [frame for frame in read_frames(find_table(root, table))]
    frames = [_described(root, frame) for frame in track(listed, len(listed), "hashing frames", "frames")]
    ids = split_ids(frames)
    if EVALUATED not in ids and len(ids) > 1:
        raise UsageError(f"{root} has no split {EVALUATED!r}, which is the one that is evaluated; it has {some(ids)}.")
    evaluated = ids.get(EVALUATED) or next(iter(ids.values()))
    return {"dataset_id": evaluated, "taxonomy_version": TAXONOMY_VERSION, "dataset_ids": ids, "frames": frames}


def _described(root: Path, frame: Frame) -> dict[str, Any]:
    try:
        data, mask = (root / frame.file).read_bytes(), (root / frame.mask).read_bytes()
        size = inspect(data)
    except (OSError, Unreadable) as error:
        raise UsageError(f"{frame.file}: image or mask cannot be read ({error}). Mend it or drop its row.") from error
    return {
        "file": frame.file,
        "mask": frame.mask,
        "sha256": hashlib.sha256(data).hexdigest(),
        "mask_sha256": hashlib.sha256(mask).hexdigest(),
        "split": frame.split,
        "wall_id": frame.wall_id,
        "size": list(size),
    }


def split_ids(frames: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """dataset_id of every split of a manifest's frames."""
    splits = sorted({frame["split"] for frame in frames})
    keys = ("file", "sha256", "mask_sha256", "split", "wall_id")
    return {s: painting_id(tuple(f[k] for k in keys) for f in frames if f["split"] == s) for s in splits}  # type: ignore


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest, with its identities recomputed from its own frames.

    Raises:
        UsageError: it is none, of another taxonomy, or an identity in it is not that of its frames.
    """
    try:
        found: Any = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} cannot be read as JSON ({error}): make it with benchkit painting manifest DIR."
        ) from error
    frames = found.get("frames") if isinstance(found, dict) else None
    if not isinstance(frames, list) or not frames:
        raise UsageError(f"{path} is no manifest of frames: make it with benchkit painting manifest DIR.")
    for number, frame in enumerate(frames):
        odd = [k for k, kind in FRAME_KEYS.items() if not isinstance(frame, dict) or not isinstance(frame.get(k), kind)]
        if odd:
            raise UsageError(f"{path}, frame {number}: {odd[0]} is missing or no {FRAME_KEYS[odd[0]].__name__}.")
    if found.get("taxonomy_version") != TAXONOMY_VERSION:
        raise UsageError(f"{path} is of taxonomy {found.get('taxonomy_version')!r}, and this is {TAXONOMY_VERSION}.")
    ids = split_ids(frames)
    if found.get("dataset_id") not in ids.values():
        raise UsageError(f"{path}: dataset_id is not that of its frames, so it was edited. Make it anew from the data.")
    return {**found, "dataset_ids": ids}


def differences(root: Path, manifest: Mapping[str, Any], table: str | None = None) -> list[str]:
    """What is not as the manifest says, a line each: changed, missing or added files, other splits, walls or sizes."""
    known = {frame["file"]: frame for frame in manifest["frames"]}
    found = []
    for name in track(list(known), len(known), "comparing frames", "frames"):
        found += _changes(root, known[name])
    path = find_table(root, table)
    if path.name != NAME:
        found += _other_rows(read_frames(path), known, path.name)
    named = {f["file"] for f in known.values()} | {f["mask"] for f in known.values()}
    folders = sorted({Path(name).parent.as_posix() for name in known})
    for folder in (each for each in folders if (root / each).is_dir()):
        below = (image for _, entries in tree(str(root / folder)) for image in entries.images)
        extra = sorted(Path(image).relative_to(root).as_posix() for image in below)
        found += [f"{image} was added: the manifest does not know it" for image in extra if image not in named]
    return list(dict.fromkeys(found))


def _changes(root: Path, frame: Mapping[str, Any]) -> list[str]:
    found = []
    for key, digest in (("file", "sha256"), ("mask", "mask_sha256")):
        try:
            data = (root / frame[key]).read_bytes()
        except OSError:
            found.append(f"{frame[key]} is missing")
            continue
        if hashlib.sha256(data).hexdigest() != frame[digest]:
            found.append(f"{frame[key]} was changed")
    return found


def _other_rows(frames: Sequence[Frame], known: Mapping[str, Mapping[str, Any]], table: str) -> list[str]:
    rows = {frame.file: frame for frame in frames}
    found = [f"{name} is not in {table} any more" for name in known if name not in rows]
    for name, row in rows.items():
        if name not in known:
            found.append(f"{name} was added to {table}: the manifest does not know it")
            continue
        told = {"mask": row.mask, "split": row.split, "wall_id": row.wall_id}
        found += [f"{name}: {k} is {v} in {table} and {known[name][k]} in the manifest" for k, v in told.items()
                  if known[name][k] != v]  # fmt: skip
    return found
