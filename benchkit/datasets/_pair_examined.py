"""Examines pairs with known cameras before anything is computed: each one's files, and the poses against what is seen."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets import _pair_check as checking
from benchkit.datasets._pair_dataset import PosedPairs
from benchkit.datasets._pair_guesses import Guess, guesses
from benchkit.datasets._pair_items import Camera, Pair
from benchkit.datasets._pair_resolution import common, factor
from benchkit.datasets._pair_turned import BACK, QUARTERS, UPRIGHT, upright_camera
from benchkit.images import Unreadable
from benchkit.provenance.identity import identity_hash

NO_MATCHER = (
    "Poses were not checked against the images, since that needs OpenCV: pip install opencv-python-headless (or say "
    "data.check=off)."
)
STILL = 1e-12  # a shorter t is none
NO_STEP = (
    "t is 0, which has no direction: a pose that nobody filled in? Where cameras do no more than turn, data.check=off takes it "
    "as it is, and the rotation alone is scored"
)


class ExaminedPairs(PosedPairs):
    """Pairs whose poses are checked when their files are looked at for the first time."""

    def begin(self, settings: Any, pairs: list[Pair]) -> None:
        """Take over what was read."""
        super().begin(settings, pairs)
        self._lock = threading.Lock()
        self._depth_faults: dict[str, str] = {}
        self._as_read = {
            pair.name: pair for pair in pairs
        }  # with focal lengths below 0 if there are any: guesses undo readings
        self._checked = settings.check == "off"

    def notes(self) -> list[str]:
        """Whether the poses could be checked, and whether depth agrees with them."""
        if self.settings.check != "auto":
            return []
        if not self.maps:
            return [] if checking.has_matcher() else [NO_MATCHER]
        told = checking.doubt(self._depths)
        return [told] if told else []

    @cached_property
    def _sample(self) -> list[Pair]:
        """The pairs of the evaluated split that are looked at."""
        return checking.sample([pair for pair in self.pairs.values() if pair.split == self.settings.split])

    @cached_property
    def _depths(self) -> list[checking.Count]:
        """What depth says of every reading."""
        return checking.count_first(self._sample, self._by_depth)

    @cached_property
    def _factor(self) -> float | None:
        """By what all intrinsics may have to be multiplied; None where views differ."""
        cameras = [camera for pair in self._sample for camera in pair.cameras]
        return common([factor(camera.K, size) for camera in cameras if min(size := self.stored_size(camera.image))])

    @cached_property
    def _numbers(self) -> str:
        sizes = {name: [camera.size for camera in pair.cameras] for name, pair in self.pairs.items()}
        files = {name: self.target_files(name) for name in sorted(self.pairs)}
        return identity_hash([files, sizes, self.exif, self.settings.check, checking.has_matcher()])

    def examined_by(self) -> tuple[str, ...]:
        """All poses, and whether they are checked."""
        return (self._numbers,)

    def examine(self, item: str) -> str:
        """What is wrong with a pair: intrinsics of another size, a photo stored turned, depth that does not fit.

        Raises:
            UsageError: another reading of the poses fits images and depth clearly better; names it, and what mends it.
        """
        pair = self.pairs[item]
        if self.settings.check == "auto" and not np.linalg.norm(pair.pose[:3, 3]) > STILL:
            return f"{pair.where}: {item}: {NO_STEP}"
        for camera in pair.cameras:
            try:
                problem = self.fault(camera)
            except (OSError, Unreadable):
                continue  # the image has a problem of its own, which is named by others
            if problem:
                return f"{pair.where}: {camera.image}: {problem}"
            if camera.depth and self.maps:
                problem = self._depth_fault(camera)
            if problem:
                return f"{pair.where}: {camera.depth}: {problem}"
        self._check_once()
        return ""

    def fault(self, camera: Camera) -> str:
        """What is wrong between a camera and its image."""
        turned = self.tag(camera.image)
        if self.exif == "refuse" and turned != UPRIGHT:
            return (
                f"it is stored turned (EXIF orientation {turned}): say whether intrinsics, pose and depth are of the pixels as "
                "they are stored (data.exif=stored) or of the upright picture (data.exif=upright)"
            )
        if self.exif == "stored" and turned not in QUARTERS:
            return f"its EXIF orientation {turned} mirrors it; store it as it was taken"
        width, height = self.stored_size(camera.image)
        if camera.size not in (None, (width, height)):
            said = f"{camera.size[0]} x {camera.size[1]}"  # type: ignore[index]
            return (
                f"its intrinsics are of {said} pixels and the file has {width} x {height}: multiply fx and cx by "
                f"{width / camera.size[0]:.6g}, fy and cy by {height / camera.size[1]:.6g}"  # type: ignore[index]
            )
        cx, cy = camera.K[0, 2], camera.K[1, 2]
        if not (0 <= cx <= width and 0 <= cy <= height) and self.settings.check == "auto":
            swapped = 0 < camera.K[0, 0] <= width and 0 < camera.K[1, 1] <= height
            cause = "do fx, fy and cx, cy stand in each other's place" if swapped else "are they of another resolution"
            return (
                f"its principal point ({cx:g}, {cy:g}) lies outside its {width} x {height} pixels: {cause}? Of a picture "
                "cut out of a larger one say data.check=off"
            )
        return ""

    def _depth_fault(self, camera: Camera) -> str:
        """What is wrong with a view's depth, which is read once however many pairs the view is in."""
        assert camera.depth is not None
        if camera.depth not in self._depth_faults:
            self._depth_faults[camera.depth] = self.depth_fault(camera)
        return self._depth_faults[camera.depth]

    def depth_fault(self, camera: Camera) -> str:
        """What is wrong between a view and its depth."""
        try:
            depth = self.stored_depth(camera)
        except (OSError, Unreadable) as error:
            return str(error)
        width, height = self.stored_size(camera.image)
        if depth is None or depth.shape == (height, width):
            return ""
        return f"it is {depth.shape[1]} x {depth.shape[0]} pixels, and its image {width} x {height}"

    def _check_once(self) -> None:
        with self._lock:
            if not self._checked:
                self.check()
                self._checked = True

    def check(self) -> None:
        """Compare the poses of a few pairs of the evaluated split with depth, or with matches between the images.

        Raises:
            UsageError: another reading is clearly better.
        """
        if self.maps:
            verdicts = checking.judge_depths(self._depths)
            if verdicts:
                checking.refuse(verdicts, "depth maps", self.listed, "points with depth")
            if checking.is_sure(self._depths):
                return
        if checking.has_matcher():
            verdicts = checking.judge_matches(checking.count_until_enough(self._sample, self._by_matches))
            if verdicts:
                checking.refuse(verdicts, "images", self.listed, "matches")

    def _readings(self, pair: Pair, scale: float | None = None) -> dict[str, Guess]:
        for camera in pair.cameras:
            self.file_size(camera.image)  # raises where it cannot be read
        read = self._as_read[pair.name]
        return guesses(read, self.reading, self._factors(read), scale) | self._turned_otherwise(read)

    def _factors(self, pair: Pair) -> tuple[float, float]:
        if self._factor is not None:
            return self._factor, self._factor
        first, second = (factor(camera.K, self.stored_size(camera.image)) for camera in pair.cameras)
        return first, second

    def _turned_otherwise(self, pair: Pair) -> dict[str, Guess]:
        """If the numbers were of the stored pixels in place of the upright picture, or the other way round."""
        tags = [self.tag(camera.image) for camera in pair.cameras]
        if self.exif == "refuse" or all(tag == UPRIGHT or tag not in QUARTERS for tag in tags):
            return {}
        other = "upright" if self.exif == "stored" else "stored"
        found = []
        for tag, camera in zip(tags, pair.cameras, strict=True):
            width, height = self.file_size(camera.image)
            if self.exif == "stored":
                tag = BACK.get(tag, tag)
            elif QUARTERS.get(tag, 0) % 2:
                width, height = height, width
            found.append(upright_camera(camera.K, (width, height), tag))
        (K0, frame0), (K1, frame1) = found
        name = f"intrinsics and pose are of the {'upright pictures' if other == 'upright' else 'stored pixels'}"
        return {name: Guess(frame1 @ pair.pose @ frame0.T, K0, K1, f"set data.exif={other}")}

    def _by_depth(self, pair: Pair) -> checking.Count | None:
        try:
            depth0, depth1 = (self.stored_depth(camera) for camera in pair.cameras)
            if depth0 is None or depth1 is None:
                return None
            scale = self.scale(pair.cameras[0].depth or "")
            return checking.count_depths(depth0, depth1, self._readings(pair, scale))
        except (OSError, Unreadable):
            return None  # named by others

    def _by_matches(self, pair: Pair) -> checking.Count | None:
        try:
            first, second = (self._stored_image(view) for view in self.views(pair.name))
            return checking.count_matches(first, second, self._readings(pair))
        except (OSError, Unreadable):
            return None

    def _stored_image(self, view: str) -> NDArray[np.uint8]:
        return np.ascontiguousarray(np.rot90(self.image(view), -QUARTERS.get(self.turn(view), 0)))
