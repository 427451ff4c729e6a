"""data_manifest.json: the frames of a Painting Vision folder as they were, byte for byte."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Any

from benchkit.datasets._listing import check_name, tree
from benchkit.datasets._painting_table import Frame, below, find_table, read_frames
from benchkit.errors import UsageError, reason, some
from benchkit.images import Unreadable, inspect
from benchkit.metrics.painting import TAXONOMY_VERSION
from benchkit.progress import track
from benchkit.provenance import strict
from benchkit.provenance.painting import painting_id

LARGEST = 256 << 20  # bytes of a manifest
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
    evaluated = _evaluated(ids)
    if evaluated is None:
        raise UsageError(f"{root} has no split {EVALUATED!r}, which is the one that is evaluated; it has {some(ids)}.")
    return {"dataset_id": evaluated, "taxonomy_version": TAXONOMY_VERSION, "dataset_ids": ids, "frames": frames}


def _described(root: Path, frame: Frame) -> dict[str, Any]:
    data, mask = read_regular(root / frame.file), read_regular(root / frame.mask)
    if data is None or mask is None:
        raise UsageError(
            f"{frame.file if data is None else frame.mask} is no file that can be read. Mend it or drop its row."
        )
    try:
        size = inspect(data)
    except Unreadable as error:
        raise UsageError(f"{frame.file}: the image cannot be read ({error}). Mend it or drop its row.") from error
    return {
        "file": frame.file,
        "mask": frame.mask,
        "sha256": hashlib.sha256(data).hexdigest(),
        "mask_sha256": hashlib.sha256(mask).hexdigest(),
        "split": frame.split,
        "wall_id": frame.wall_id,
        "size": list(size),
    }


def _evaluated(ids: Mapping[str, str]) -> str | None:
    """Of the split test, or of the only one."""
    return ids.get(EVALUATED) or (next(iter(ids.values())) if len(ids) == 1 else None)


def split_ids(frames: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """dataset_id of every split of a manifest's frames."""
    splits = sorted({frame["split"] for frame in frames})
    keys = ("file", "sha256", "mask_sha256", "split", "wall_id")
    return {s: painting_id(tuple(f[k] for k in keys) for f in frames if f["split"] == s) for s in splits}  # type: ignore


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest, with its identities recomputed from its own frames.

    Raises:
        UsageError: it is none, of another taxonomy, names a file twice or outside its folder, or an identity in it is not
            that of its frames.
    """
    found = read_json(path, "make it with benchkit painting manifest DIR")
    frames = found.get("frames") if isinstance(found, dict) else None
    if not isinstance(frames, list) or not frames:
        raise UsageError(f"{path} is no manifest of frames: make it with benchkit painting manifest DIR.")
    for number, frame in enumerate(frames):
        _check_frame(frame, f"{path}, frame {number}")
    if found.get("taxonomy_version") != TAXONOMY_VERSION:
        raise UsageError(f"{path} is of taxonomy {found.get('taxonomy_version')!r}, and this is {TAXONOMY_VERSION}.")
    counts = Counter([*(frame["file"] for frame in frames), *(frame["mask"] for frame in frames)])
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"{path} names {twice} twice, so it was edited. Make it anew from the data.")
    ids = split_ids(frames)
    if found.get("dataset_id") != _evaluated(ids) or found.get("dataset_ids", ids) != ids:
        raise UsageError(f"{path}: dataset_id is not that of its frames, so it was edited. Make it anew from the data.")
    return {**found, "dataset_ids": ids}


def _check_frame(frame: Any, where: str) -> None:
    odd = [k for k, kind in FRAME_KEYS.items() if not isinstance(frame, dict) or not isinstance(frame.get(k), kind)]
    if odd:
        raise UsageError(f"{where}: {odd[0]} is missing or no {FRAME_KEYS[odd[0]].__name__}.")
    for key in ("file", "mask"):
        if below(frame[key], where) != frame[key]:
            raise UsageError(f"{where}: {frame[key]!r} is no plain path below the folder.")
    for key in ("split", "wall_id"):
        check_name(frame[key])
        if not frame[key].strip():
            raise UsageError(f"{where}: {key} is empty.")
    if len(frame["size"]) != 2 or not all(type(side) is int and side > 0 for side in frame["size"]):
        raise UsageError(f"{where}: size should be two whole numbers, height and width.")


def read_json(path: Path, mend: str, largest: int = LARGEST) -> Any:
    """A file's JSON (`provenance.strict`), of at most so many bytes.

    Raises:
        UsageError: it cannot be read so; `mend` says what to do.
    """
    try:
        return strict.read(path, largest)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON ({reason(error)}): {mend}.") from error


def walls_across(frames: Sequence[Mapping[str, Any]]) -> list[str]:
    """Walls that are in two splits, a line each: buildings are split, never frames.

    Names that differ in case or in the Unicode form of a letter alone are one wall.
    """
    walls: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for frame in frames:
        key = unicodedata.normalize("NFC", frame["wall_id"]).casefold().strip()
        walls[key][frame["split"]].append(frame["file"])
    return [
        f"wall {wall} is in {len(splits)} splits: "
        + "; ".join(f"{s} ({some(files, 3)})" for s, files in splits.items())
        for wall, splits in sorted(walls.items())
        if len(splits) > 1
    ]


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
    images = (Path(image).relative_to(root).as_posix() for _, entries in tree(str(root)) for image in entries.images)
    found += [f"{image} was added: the manifest does not know it" for image in sorted(images) if image not in named]
    return list(dict.fromkeys(found))


def _changes(root: Path, frame: Mapping[str, Any]) -> list[str]:
    found = []
    for key, digest in (("file", "sha256"), ("mask", "mask_sha256")):
        data = read_regular(root / frame[key])
        if data is None:
            found.append(f"{frame[key]} is missing")
        elif hashlib.sha256(data).hexdigest() != frame[digest]:
            found.append(f"{frame[key]} was changed")
        elif key == "file" and list(inspect(data)) != frame["size"]:
            found.append(
                f"{frame[key]}: size is {frame['size']} in the manifest, and the image's is {list(inspect(data))}"
            )
    return found


def read_regular(path: Path) -> bytes | None:
    """The bytes of a regular file; None where there is none: a device or a pipe might never end."""
    try:
        return path.read_bytes() if S_ISREG(path.stat().st_mode) else None
    except OSError:
        return None


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
