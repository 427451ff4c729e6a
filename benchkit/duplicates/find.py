"""All pairs of views of one export that show the same photo."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchkit.duplicates.agreement import COARSE, CORRELATION, LEAST, LEAST_PLAIN, PLAIN, TINT, agreement, plain
from benchkit.duplicates.blocks import Found
from benchkit.duplicates.candidates import COSINE, HAMMING, by_cosine, by_hash, pooled_key
from benchkit.duplicates.pictures import BITS, Pictures, read_pictures
from benchkit.progress import Progress
from benchkit.store.table import Table

Agreements = dict[tuple[int, int], np.ndarray]  # rows of a pair -> as they are, in a frame, mirrored

MIRROR_MARGIN = 0.1  # a copy of something symmetric agrees mirrored too: it is called so only if that agrees better
BYTES, REENCODED, MIRRORED, SIMILAR = "bytes", "re-encoded", "mirrored", "similar"
KINDS = (BYTES, REENCODED, MIRRORED, SIMILAR)
THRESHOLDS = {"hash_bits": BITS, "hamming": HAMMING, "cosine": COSINE, "tint": TINT, "correlation": CORRELATION,
              "coarse_correlation": COARSE, "agreement": LEAST, "plain": PLAIN, "agreement_plain": LEAST_PLAIN}  # fmt: skip


@dataclass
class Copies:
    """What was found.

    Attributes:
        views: names of all views.
        pairs: (first, second) -> one of KINDS, first < second.
        looked_at: pairs of thumbnails that were compared, by what proposed them.
        left_out: what was not checked, and why: a sentence each.
    """

    views: list[str]
    pairs: dict[tuple[str, str], str] = field(default_factory=dict)
    looked_at: dict[str, int] = field(default_factory=lambda: {"hash": 0, "cosine": 0})
    left_out: list[str] = field(default_factory=list)


def find_copies(folder: Path) -> Copies:
    """Compare all views of a finished export with each other.

    Raises:
        RunError: features.h5 or thumbs.h5 is damaged; names the view.
    """
    with Table(folder / "features.h5", "features") as features:
        copies = Copies(list(features.names))
        distinct = _equal_bytes(copies, features.read("image"))
        if not (folder / "thumbs.h5").exists():
            copies.left_out.append("only equal bytes were looked for: there is no thumbs.h5")
            return copies
        with Table(folder / "thumbs.h5", "thumbs") as thumbs:
            pictures = read_pictures(thumbs, distinct)
        flat = int(pictures.flat.sum())
        if flat:
            copies.left_out.append(f"{flat} views show nothing but one tone: of them only bytes were compared")
        _compare(copies, pictures.only(~pictures.flat), features)
    return copies


def _equal_bytes(copies: Copies, images: Iterable[str]) -> list[str]:
    """Pair views whose images have one sha256; returns one view of each image."""
    by_image: dict[str, list[str]] = defaultdict(list)
    for name, image in zip(copies.views, images, strict=True):
        by_image[image].append(name)
    for names in by_image.values():
        first, *others = sorted(names)
        copies.pairs.update({(first, other): BYTES for other in others})
    return sorted(min(names) for names in by_image.values())


def compare_pictures(pictures: Pictures) -> dict[tuple[str, str], str]:
    """Pairs of pictures that show the same photo, by their pixels alone: (first, second) -> one of KINDS."""
    copies = Copies(list(pictures.names))
    _compare(copies, pictures.only(~pictures.flat), None)
    return copies.pairs


def _compare(copies: Copies, pictures: Pictures, features: Table | None) -> None:
    count = len(pictures.names)
    key = None if features is None else pooled_key(features)
    if features is not None and key is None:
        copies.left_out.append("features were not compared: features.h5 holds none but an index into parts")
    rounds = 2 if key is None else 3
    progress = Progress(rounds * count * (count - 1) // 2, "duplicates", "pairs")
    agreements: Agreements = defaultdict(lambda: np.full(3, -1.0))
    for mirrored in (False, True):
        for found in _counted(by_hash(pictures, mirrored), "hash", copies, progress):
            _look(agreements, pictures, found, mirrored)
    proposed = by_cosine(features, key, pictures.names) if features is not None and key else ()
    for found in _counted(proposed, "cosine", copies, progress):
        for mirrored in (False, True):
            _look(agreements, pictures, found, mirrored)
    progress.finish()
    _decide(copies, pictures, agreements)


def _counted(blocks: Iterable[Found], by: str, copies: Copies, progress: Progress) -> Iterator[Found]:
    dropped = 0
    for found in blocks:
        copies.looked_at[by] += len(found.first)
        dropped += found.dropped
        yield found
        progress.advance(found.compared)
    if dropped:
        copies.left_out.append(
            f"{dropped:,} further pairs are alike by {by}: only the most similar ones were looked at"
        )


def _look(agreements: Agreements, pictures: Pictures, found: Found, mirrored: bool) -> None:
    """Keep how the pairs of one block agree, where that is at all near enough to matter."""
    how = agreement(pictures, found.first, found.second, mirrored)
    for k in np.flatnonzero(how.max(axis=1, initial=-1) >= LEAST):
        three = agreements[int(found.first[k]), int(found.second[k])]
        values = (-1, -1, how[k].max()) if mirrored else (*how[k], -1)
        np.maximum(three, values, out=three)


def _decide(copies: Copies, pictures: Pictures, agreements: Agreements) -> None:
    """Pairs that agree well enough are copies; of the ways in which a pair agrees, the best one counts."""
    without_detail = plain(pictures)
    for (i, j), three in agreements.items():
        least = LEAST_PLAIN if without_detail[i] or without_detail[j] else LEAST
        if three.max() >= least:
            mirrored = three[2] > three[:2].max() + MIRROR_MARGIN or three[:2].max() < least
            kind = MIRRORED if mirrored else REENCODED if three[0] >= least else SIMILAR
            copies.pairs[pictures.names[i], pictures.names[j]] = kind
    count = int(without_detail.sum())
    if count:
        copies.left_out.append(f"{count} views have so little detail that only copies which hardly differ are found")
