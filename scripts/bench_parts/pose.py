"""Time of relative poses of many pairs at six thresholds, in threads as eval takes them, against a loop over the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

MATCHES, OUTLIERS, THRESHOLDS = 600, 0.4, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
PAIRS, ALL, BLOCK = 150, 1500, 75
SIZE = (640.0, 480.0)


def run(threads: int, long: bool = False) -> list[dict]:
    """One figure: as many workers as `threads`; `long` takes 1,500 pairs, as the usual sets have, which takes minutes."""
    pinned = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    root = str(Path(__file__).resolve().parents[2])
    pairs = ALL if long else PAIRS
    command = [sys.executable, __file__, str(pairs), str(threads)]
    done = subprocess.run(command, env={**os.environ, **pinned, "PYTHONPATH": root}, check=True, capture_output=True)
    name = f"relative_pose {pairs}x{MATCHES} matches, {len(THRESHOLDS)} thresholds"
    return [{"figure": name, **json.loads(done.stdout), "bound": 0.6}]


def measure(pairs: int, workers: int) -> dict[str, Any]:
    """Both ways in turns, block by block, so that a busy machine slows both."""
    from benchkit import registry
    from benchkit.eval._robust_settings import SEVERAL

    assert list(SEVERAL) == THRESHOLDS
    family = registry.find("eval", "relative_pose")
    eval_ = family.build(family.settings(ransac_th=[-1], workers=workers))
    seconds, cpu, errors = np.zeros(2), np.zeros(2), [[], []]
    for start in range(0, pairs, BLOCK):
        items = [_pair(seed) for seed in range(start, min(start + BLOCK, pairs))]
        predictions, targets = _files(items, start)
        for way, work in enumerate((lambda p=predictions, t=targets: _scores(eval_, p, t), lambda i=items: _loop(i))):
            begun, spent = time.perf_counter(), time.process_time()
            errors[way].append(work())
            seconds[way] += time.perf_counter() - begun
            cpu[way] += time.process_time() - spent
    shares = [float((np.concatenate(each) < 5).mean()) for each in errors]
    return {
        "seconds": seconds[0],
        "serial_seconds": seconds[1],
        "ratio": seconds[0] / seconds[1],
        "cpu_ratio": cpu[0] / cpu[1],  # of what threads cannot hide, on a busy machine too
        "within_5_degrees": shares[0],
        "serial_within_5_degrees": shares[1],
    }


def _scores(family: Any, predictions: Any, targets: Any) -> np.ndarray:
    columns = family.score(predictions, targets)
    return np.stack([columns[f"rel_pose_error_poselib[{threshold:g}]"] for threshold in THRESHOLDS], axis=1)


def _loop(items: list[dict[str, np.ndarray]]) -> np.ndarray:
    """What is written without a tool."""
    import poselib

    errors = np.empty((len(items), len(THRESHOLDS)))
    for column, threshold in enumerate(THRESHOLDS):
        for row, item in enumerate(items):
            matched = item["matches0"] >= 0
            points0 = item["keypoints0"][matched]
            points1 = item["keypoints1"][item["matches0"][matched]]
            pose, _ = poselib.estimate_relative_pose(
                points0, points1, _camera(item["K0"]), _camera(item["K1"]), {"max_epipolar_error": threshold}, {}
            )
            errors[row, column] = _error(pose.R, pose.t, item["R"], item["t"])
    return errors


def _camera(K: np.ndarray) -> dict[str, Any]:
    params = [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]
    return {"model": "PINHOLE", "width": int(SIZE[0]), "height": int(SIZE[1]), "params": params}


def _error(R: np.ndarray, t: np.ndarray, true_R: np.ndarray, true_t: np.ndarray) -> float:
    turn = np.degrees(np.arccos(np.clip((np.trace(R.T @ true_R) - 1) / 2, -1, 1)))
    along = np.degrees(np.arccos(np.clip(t @ true_t / np.linalg.norm(t) / np.linalg.norm(true_t), -1, 1)))
    return float(max(turn, min(along, 180 - along)))


def _pair(seed: int) -> dict[str, np.ndarray]:
    """Points 3 to 9 before a camera that moves and turns by up to 20 degrees, half a pixel of noise, two fifths wrong."""
    generator = np.random.default_rng(seed)
    K = np.array([[600.0, 0, 320], [0, 600, 240], [0, 0, 1]])
    points = generator.uniform([-2, -1.5, 3], [2, 1.5, 9], (MATCHES, 3))
    angle, t = np.radians(generator.uniform(-20, 20)), generator.normal(0, 0.5, 3)
    R = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
    views = []
    for seen in (points, points @ R.T + t):
        pixels = seen @ K.T
        views.append(pixels[:, :2] / pixels[:, 2:] + generator.normal(0, 0.5, (MATCHES, 2)))
    wrong = round(OUTLIERS * MATCHES)
    views[1][:wrong] = generator.uniform(0, SIZE, (wrong, 2))
    return {
        "keypoints0": views[0].astype(np.float32),
        "keypoints1": views[1].astype(np.float32),
        "matches0": np.arange(MATCHES, dtype=np.int32),
        "matching_scores0": np.ones(MATCHES, np.float32),
        **{"K0": K, "K1": K, "R": R, "t": t, "size0": np.array(SIZE), "size1": np.array(SIZE)},
    }


def _files(items: list[dict[str, np.ndarray]], start: int) -> tuple[Any, Any]:
    from benchkit.store.items import ArrayItems

    names = [f"pair{start + row:04}" for row in range(len(items))]
    fields = {field: [item[field] for item in items] for field in items[0]}
    predictions = ("keypoints0", "keypoints1", "matches0", "matching_scores0")
    return (
        ArrayItems(names, {field: fields[field] for field in predictions}),
        ArrayItems(names, {field: fields[field] for field in fields if field not in predictions}),
    )


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
