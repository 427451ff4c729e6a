"""How the golden files of format version 1 were written, once, by `python tests/golden/make.py FOLDER`.

The files in `v1/` are never regenerated: they stand for the files that users have, and every later benchkit has to read
them. A new format version gets a folder of its own beside them. `tests/test_golden.py` holds what is in them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchkit.provenance.identity import identity_hash
from benchkit.store.columns import Ragged
from benchkit.store.table import write_table

ITEMS = ["test/cat/a.png", "test/dög/b.png", "test/日本/c.png"]
IMAGES = ["00" * 32, "7f" * 32, "ff" * 32]
IDENTITY = {"backbone": "golden", "batch_size": 4, "precision": "fp32"}
BYTES = np.dtype(np.uint8)


def main(folder: Path) -> None:
    """Write every kind of table."""
    _eval_tables(folder)
    _feature_tables(folder)
    facts = {
        "sha256": IMAGES,
        "height": np.array([48, 1, 4000], np.int64),
        "width": np.array([64, 1, 6000], np.int64),
        "problem": ["", "it is truncated", ""],
        "bytes": np.array([1234, 0, 5_000_000_000], np.int64),
        "mtime_ns": np.array([1_700_000_000_123_456_789, 0, -1], np.int64),
    }
    write_table(folder / "manifest.h5", "manifest", ITEMS, facts)


def _eval_tables(folder: Path) -> None:
    masks = [np.array([[1, 2, 3]], np.uint8), np.zeros((0, 2), np.uint8), np.array([[255], [0]], np.uint8)]
    scores = np.array([[0.5, -1.25], [3.0, 65504.0], [-0.0, 1e-8]], np.float32)
    whole = {"floor/scores": np.array([0.25, 0.75], np.float32), "fit/accuracy": np.array(0.875)}
    columns = {"scores": scores, "mask": Ragged(BYTES, 2, masks)}
    write_table(folder / "predictions.h5", "predictions", ITEMS, columns, whole, {"scores_are": "logits"})
    truth = {
        "label": np.array([0, 1, 2], np.int64),
        "valid": np.array([True, False, True]),
        "group": ["cat", "dög", ""],
        "category/class": ["cat", "dög", "日本"],
        "views": ["l.png\nr.png", "b.png", "c.png"],
    }
    write_table(folder / "targets.h5", "targets", ITEMS, truth, meta={"classes": ["cat", "dög", "日本"], "ignore": 255})
    numbers = {"top1": np.array([1.0, 0.0, np.nan]), "stats/tp": np.array([3, 0, 2**40], np.int64)}
    write_table(folder / "results.h5", "results", ITEMS, numbers, meta={"eval": {"k": [1, 5]}})
    thumbs = Ragged(
        BYTES, 1, [np.array([255, 216, 255], np.uint8), np.zeros(0, np.uint8), np.arange(5, dtype=np.uint8)]
    )
    write_table(folder / "thumbs.h5", "thumbs", ITEMS, {"thumb": thumbs})


def _feature_tables(folder: Path) -> None:
    pooled = np.array([[1.0, 2.0], [0.0, 0.0], [-3.5, 4.25]], np.float32)
    maps = np.arange(12, dtype=np.float16).reshape(3, 2, 2)
    meta = {"identity": IDENTITY, "identity_hash": identity_hash(IDENTITY), "platform": {"cpu": "avx2"}}
    columns = {
        "features/cls@final": pooled,
        "features/patch@11": maps,
        "reason": ["", "the model gave NaN or infinity", ""],
        "size": np.array([[48, 64], [1, 1], [4000, 6000]], np.int32),
        "thumb": Ragged(BYTES, 1, [np.arange(2, dtype=np.uint8), np.zeros(0, np.uint8), np.ones(1, np.uint8)]),
    }
    part = "part-00000000000000000000000000000001.h5"
    write_table(folder / "features" / part, "bank", IMAGES, columns, meta=meta)
    facts = {key: meta[key] for key in ("identity", "identity_hash")}
    facts |= {"keys": ["cls@final", "patch@11"], "parts": [part]}
    inline = {"image": [IMAGES[2], IMAGES[0]], "features/cls@final": pooled[[2, 0]]}
    index = {"index/patch@11": np.array([[0, 2], [0, 0]], np.int64)}
    write_table(folder / "features.h5", "features", ["a.png", "b.png"], {**inline, **index}, meta=facts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
