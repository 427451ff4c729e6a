"""The one loop that runs the backbone: batches in, parts of the bank out."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from benchkit.conf.model import ModelSettings
from benchkit.errors import RunError, UsageError
from benchkit.export.batches import Picture, Pictures, batches, lacking_by_columns
from benchkit.export.behind import Behind
from benchkit.export.decoding import Decoded, decoded_batches
from benchkit.features import FeatureKey
from benchkit.preprocess import Preprocess
from benchkit.progress import Progress
from benchkit.store.bank import Bank
from benchkit.store.columns import Column, Ragged

if TYPE_CHECKING:
    from benchkit.export.running import Answers

PART_BYTES = 32 << 20
PART_SECONDS = 60.0
NOT_FINITE = "the model gave NaN or infinity"  # the reason of such a row


class Forward:
    """A backbone on its device, ready to fill a bank.

    Args:
        backbone: `benchkit.backbones.base.Backbone`.
        keys: feature keys wanted.
        model: precision, batch size, device, what to do about values that are not finite.
        preprocess: images -> inputs.
        device: torch device.
        platform: recorded with every part.
    """

    def __init__(
        self,
        backbone: Any,
        keys: Sequence[Any],
        model: ModelSettings,
        preprocess: Preprocess,
        device: Any,
        platform: Mapping[str, Any],
    ) -> None:
        from benchkit.export.running import Running  # torch: a finished tag is left without it

        self.keys = list(keys)
        self.model, self.preprocess, self.platform = model, preprocess, platform
        self.running = Running(backbone, model, preprocess, device)
        self.images = 0

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one row per key.

        Raises:
            UsageError: a map's sides are no multiples of model.features.dense_stride.
        """
        height, width = self.preprocess.shape(self.preprocess.size, self.preprocess.size)
        found = self.running.backbone.shapes(height, width, self.keys)
        return {key: self._coarser_shape(key, shape) for key, shape in found.items()}

    def _stride(self, key: str) -> int:
        """Cells a side that become one; a model's own masks are left as they are."""
        parsed = FeatureKey.parse(key)
        return self.model.features.dense_stride if parsed.dense and parsed.pool == "patch" else 1

    def _coarser_shape(self, key: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        stride = self._stride(key)
        if stride > 1 and (shape[1] % stride or shape[2] % stride):
            raise UsageError(
                f"model.features.dense_stride={stride} does not divide the {shape[1]} x {shape[2]} cells of {key}: take a "
                "data.size that makes them a multiple of it, or leave the layer out."
            )
        return shape if stride == 1 else (shape[0], shape[1] // stride, shape[2] // stride)

    def answers(self, images: np.ndarray) -> Answers:
        """Features of a batch of inputs uint8 (B, h, w, 3): float32 by key."""
        import torch

        pixels = torch.from_numpy(images).permute(0, 3, 1, 2)
        return self.running.launch(pixels, self.keys, len(images), self._coarser)()

    def dtype(self, key: str) -> np.dtype:
        """How a key is stored: pooled float32, maps as the conf says."""
        return np.dtype(self.model.features.dense_dtype if FeatureKey.parse(key).dense else "float32")

    def fill(
        self,
        bank: Bank,
        pictures: Sequence[Picture],
        columns: Sequence[str],
        on_error: str,
        workers: int,
        progress: Progress,
    ) -> float:
        """Forward every picture that lacks a column; returns images per second.

        Pictures are decoded ahead of the model, and parts written behind it, each by threads of their own.

        Raises:
            RunError: unreadable image, not finite feature, out of memory; what was finished is in the bank.
            KeyboardInterrupt: after the open part was written.
        """
        pictures = Pictures.of(pictures)
        for missing, group in lacking_by_columns(bank.lacks(pictures.digests, columns), columns, pictures):
            work = batches(group, self.preprocess, self.model.batch_size)
            with (
                self.running.filling(),
                contextlib.closing(decoded_batches(work, self.preprocess, workers, on_error)) as decoded,
                contextlib.closing(_Part(bank, missing, self.platform)) as part,  # whatever stops the loop,
                Behind(part.add) as writing,  # finished rows are kept
            ):
                for batch, answers in self._answered(decoded):
                    writing.give(self._rows(batch, answers, missing))
                    progress.advance(len(batch))
                    self.images += len(batch)
        bank.scan()
        return progress.finish()

    def _answered(self, decoded: Iterable[list[Decoded]]) -> Iterator[tuple[list[Decoded], Answers]]:
        """Batches with their answers, in order; a device that works by itself has the next ones by then."""
        flying: deque[tuple[list[Decoded], Callable[[], Answers]]] = deque()
        for batch in decoded:
            flying.append((batch, self._launched(batch)))
            if len(flying) > self.running.ahead:
                first, answers = flying.popleft()
                yield first, answers()
        for batch, answers in flying:
            yield batch, answers()

    def _rows(self, batch: list[Decoded], features: Answers, columns: Sequence[str]) -> dict[str, Any]:
        good = [d for d in batch if not d.problem]
        reasons = [d.problem for d in batch]
        position = {id(d): i for i, d in enumerate(good)}
        finite = {key: [bool(np.isfinite(each).all()) for each in value] for key, value in features.items()}
        for row, item in enumerate(batch):
            if not item.problem and not all(f[position[id(item)]] for f in finite.values()):
                reasons[row] = self._not_finite(item)
        rows: dict[str, Any] = {"reason": reasons, "names": [d.picture.sha256 for d in batch]}
        for column in columns:
            rows[column] = [
                self._value(column, item, reason, features, position)
                for item, reason in zip(batch, reasons, strict=True)
            ]
        return rows

    def _not_finite(self, item: Decoded) -> str:
        if self.model.on_nonfinite == "skip":
            return NOT_FINITE
        raise RunError(
            f"{NOT_FINITE} for {item.picture.view!r} (or a value beyond what "
            f"{self.model.features.dense_dtype} holds). What was finished is kept. Try model.precision=fp32 or "
            "model.features.dense_dtype=float32, or leave such images out with model.on_nonfinite=skip; each needs --overwrite."
        )

    def _value(self, column: str, item: Decoded, reason: str, features: Answers, position: Mapping[int, int]) -> Any:
        if column == "thumb":
            return item.thumb if item.thumb is not None else np.zeros(0, np.uint8)
        if column == "size":
            return np.array([item.picture.height, item.picture.width], np.int32)
        key = column.removeprefix("features/")
        if reason:
            return np.zeros(self._row_shape(key, features), self.dtype(key))
        return features[key][position[id(item)]]

    def _row_shape(self, key: str, features: Answers) -> tuple[int, ...]:
        if FeatureKey.parse(key).points:  # no image, no points
            return (0, *self.shapes[key][1:])
        return features[key].shape[1:] if key in features else self.shapes[key]

    def _launched(self, batch: Sequence[Decoded]) -> Callable[[], Answers]:
        """The forward of the pictures that could be decoded, started."""
        rows = [d.pixels for d in batch if not d.problem]
        if not rows:
            return dict
        pixels = self.running.batch(rows + [rows[-1]] * (self.model.batch_size - len(rows)))  # the last image again
        return self.running.launch(pixels, self.keys, len(rows), self._stored)

    def _stored(self, key: str, value: Any) -> Any:
        """As the bank holds it; an overflow is infinity by now, and reported with the item's name."""
        import torch

        return self._coarser(key, value).to(getattr(torch, self.dtype(key).name))

    def _coarser(self, key: str, value: Any) -> Any:
        import torch

        stride = self._stride(key)
        return value if stride == 1 else torch.nn.functional.avg_pool2d(value, stride)

    def texts(self, prompts: Sequence[str]) -> np.ndarray:
        """Embeddings float32 (batch_size, D) of exactly `model.batch_size` prompts."""
        return self.running.texts(prompts)


class _Part:
    """Rows of one part in memory; written whole when it is large or old enough."""

    def __init__(self, bank: Bank, columns: Sequence[str], platform: Mapping[str, Any]) -> None:
        self.bank, self.columns, self.platform = bank, columns, platform
        self._clear()

    def _clear(self) -> None:
        self.batches: list[Mapping[str, Any]] = []
        self.bytes = 0
        self.opened = time.monotonic()

    def add(self, rows: Mapping[str, Any]) -> None:
        """Take a whole batch."""
        self.batches.append(rows)
        self.bytes += sum(v.nbytes for c in self.columns for v in rows[c])
        if self.bytes >= PART_BYTES or time.monotonic() - self.opened >= PART_SECONDS:
            self.close()

    def close(self) -> None:
        """Write what there is."""
        if not self.batches:
            return
        columns: dict[str, Column] = {"reason": self._rows("reason")}
        for name in self.columns:
            columns[name] = _column(name, self._rows(name))
        self.bank.add(self._rows("names"), columns, self.platform)
        self._clear()

    def _rows(self, name: str) -> list[Any]:
        return [value for batch in self.batches for value in batch[name]]


def _column(name: str, rows: list[np.ndarray]) -> Column:
    if name == "thumb" or len({r.shape for r in rows}) > 1:
        return Ragged(rows[0].dtype, rows[0].ndim, rows)
    return np.stack(rows)
