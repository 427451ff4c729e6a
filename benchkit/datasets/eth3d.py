"""ETH3D, high-resolution multi-view: undistorted photos of scenes, calibrated, with depth from a laser scanner.

Pairs and frame are Glue Factory's (datasets/eth3d.py): two photos of a scene are a pair when they share at least
data.min_shared points of the COLMAP model (500), the first one before the second in name order; photos are an eighth as large
(data.downsize), and keypoints and depth are in pixels of that picture. Depth is `ground_truth_depth/undistorted_depth` (16-bit
PNG over 256, of an eighth of the side; the archive that Glue Factory loads), or else looked up in the official
`ground_truth_depth/dslr_images` (of the distorted photos) through both cameras.
"""

from __future__ import annotations

import dataclasses
import io
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchkit.datasets import _pair_colmap
from benchkit.datasets._listing import check_name
from benchkit.datasets._pair_dataset import PairSettings
from benchkit.datasets._pair_depth import read_depth
from benchkit.datasets._pair_examined import ExaminedPairs
from benchkit.datasets._pair_fisheye import looked_up
from benchkit.datasets._pair_items import Camera, Pair, Reading
from benchkit.errors import UsageError
from benchkit.images import DECODERS
from benchkit.settings import setting

LAYOUT = (
    "root/<scene>/images/dslr_images_undistorted/*.JPG, root/<scene>/dslr_calibration_undistorted/{cameras,images}.txt, and "
    "depth: root/<scene>/ground_truth_depth/undistorted_depth/*.png, or root/<scene>/ground_truth_depth/dslr_images/*.JPG with "
    "root/<scene>/dslr_calibration_jpg/{cameras,images}.txt"
)
CALIBRATION, DISTORTED = "dslr_calibration_undistorted", "dslr_calibration_jpg"
SMALL, RAW = "undistorted_depth", "dslr_images"  # folders of depth
PNG_SCALE = 256.0
KEPT = 96  # maps in memory, of 1.6 MB at an eighth of the side


@dataclasses.dataclass
class Settings(PairSettings):
    """Settings of ETH3D."""

    downsize: int = setting(8, "photos are made so many times smaller, as is the depth that Glue Factory loads")
    min_shared: int = setting(500, "points of the model that two photos share to be a pair")
    max_pairs: int | None = setting(None, "at most so many pairs of a scene")

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.downsize, self.min_shared, self.max_pairs or 1) < 1:
            raise ValueError("downsize, min_shared and max_pairs are above 0")


class Eth3d(ExaminedPairs):
    """See the module; an item is `<image0>--<image1>`, a view `<scene>/images/dslr_images_undistorted/<name>`.

    Raises:
        UsageError: root or a scene's calibration is missing, or wrong; names it.
    """

    exif = "upright"  # undistorted photos are stored as they are seen

    def __init__(self, settings: Settings) -> None:
        if not settings.root:
            raise UsageError(f"ETH3D needs data.root=DIR, laid out as {LAYOUT}.")
        self.root = self.image_root = self.depth_root = Path(settings.root).expanduser()
        check_name(str(self.root))
        scenes = sorted(path.parent for path in self.root.glob(f"*/{CALIBRATION}"))
        if not scenes:
            raise UsageError(f"data.root={settings.root} holds no scenes of ETH3D. Expected: {LAYOUT}.")
        self.settings, self.reading, self.listed = settings, Reading(), str(self.root)
        self._full: dict[str, tuple[int, int]] = {}
        self._looked_up = lru_cache(maxsize=KEPT)(self._look_up)
        pairs = [pair for scene in scenes for pair in self._scene(scene)]
        if not pairs:
            raise UsageError(f"{self.root}: no two photos share {settings.min_shared} points (data.min_shared).")
        self.begin(settings, pairs)

    def _scene(self, folder: Path) -> list[Pair]:
        models = {
            name: dataclasses.replace(model, camera=self._small(folder, model.camera))
            for name, model in _pair_colmap.read_model(folder / CALIBRATION, self.reading).items()
        }
        where = str(folder / CALIBRATION / "images.txt")
        return [
            _pair_colmap.pair_of(models[one], models[other], where, folder.name)
            for one, other in _pair_colmap.covisible(models, self.settings)
        ]

    def _small(self, folder: Path, camera: Camera) -> Camera:
        """The camera of the smaller picture, whose longer side is rounded down, and the shorter one too (Glue Factory)."""
        image = f"{folder.name}/images/{camera.image}"
        assert camera.size is not None
        size = smaller(camera.size, self.settings.downsize)
        self._full[image] = camera.size
        factors = [new / old for new, old in zip(size, camera.size, strict=True)]
        return Camera(image, np.diag([*factors, 1.0]) @ camera.K, size, self._depth_path(folder, camera.image))

    def _depth_path(self, folder: Path, image: str) -> str | None:
        """Below root; the small map fits pictures of an eighth of the side only."""
        name = Path(image).name
        truth = f"{folder.name}/ground_truth_depth"
        small, raw = f"{truth}/{SMALL}/{Path(image).stem}.png", f"{truth}/{RAW}/{name}"
        if self.settings.downsize == 8 and (self.root / small).is_file():
            return small
        return raw if (self.root / raw).is_file() else None

    def source(self) -> str:
        """Pictures of another size are others."""
        return f"{super().source()} / {self.settings.downsize}"

    def path(self, view: str) -> None:
        """The picture is made from its file."""
        return

    def archives(self, view: str) -> tuple[Path, ...]:
        """The photo's file."""
        return (self.root / view,)

    def read(self, view: str) -> bytes:
        """The smaller picture, as PPM: bytes that no encoder's version changes."""
        from PIL import Image

        pixels = DECODERS[self.settings.decoder]((self.root / view).read_bytes())
        size = smaller((pixels.shape[1], pixels.shape[0]), self.settings.downsize)
        written = io.BytesIO()
        Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR).save(written, "PPM")
        return written.getvalue()

    def file_size(self, view: str) -> tuple[int, int]:
        """Width and height of the smaller picture."""
        return smaller(self._full[view], self.settings.downsize)

    def fault(self, camera: Camera) -> str:
        """A photo of another size than its calibration says."""
        width, height = super().file_size(camera.image)
        said = self._full[camera.image]
        return (
            ""
            if said == (width, height)
            else f"it has {width} x {height} pixels, and its calibration {said[0]} x {said[1]}"
        )

    def stored_depth(self, camera: Camera) -> NDArray[np.float32] | None:
        """Metres, of the smaller picture."""
        if camera.depth is None:
            return None
        path = self.depth_root / camera.depth
        return read_depth(path, PNG_SCALE) if path.suffix == ".png" else self._looked_up(camera)

    def _look_up(self, camera: Camera) -> NDArray[np.float32]:
        """Depth of a distorted photo, 96 MB of it; remembered, since a photo is in several pairs."""
        assert camera.depth is not None
        scene, name = camera.image.split("/")[0], Path(camera.image).name
        known = self._distorted(scene)
        if name not in known:
            raise UsageError(f"{self.root / scene / DISTORTED / 'images.txt'} has no photo {name}.")
        assert camera.size is not None
        return looked_up(self.depth_root / camera.depth, known[name], camera.K, camera.size)

    @cached_property
    def _lenses(self) -> dict[str, dict[str, tuple[str, list[str]]]]:
        return {}

    def _distorted(self, scene: str) -> dict[str, tuple[str, list[str]]]:
        """(file and line, cells) of the cameras of a scene's photos as they were taken, by the photos' names."""
        if scene not in self._lenses:
            folder = self.root / scene / DISTORTED
            cameras = _pair_colmap.read_cameras(folder / "cameras.txt")
            lines = _pair_colmap.image_lines(folder / "images.txt")
            self._lenses[scene] = {Path(cells[9]).name: cameras[cells[8]] for _, cells in lines if cells[8] in cameras}
        return self._lenses[scene]


def smaller(size: tuple[int, int], times: int) -> tuple[int, int]:
    """Width and height, so many times smaller."""
    if times == 1:
        return size
    longer = max(size)
    return max(1, size[0] * (longer // times) // longer), max(1, size[1] * (longer // times) // longer)


__all__ = ["LAYOUT", "Eth3d", "Settings", "build"]

build = Eth3d
