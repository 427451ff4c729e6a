"""The one loop that runs the backbone: batches in, parts of the bank out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from benchkit.conf.model import ModelSettings
from benchkit.errors import RunError, UsageError
from benchkit.export.batches import Picture, batches, lacking_by_columns
from benchkit.export.decoding import Decoded, decoded_batches
from benchkit.features import FeatureKey
from benchkit.preprocess import Preprocess
from benchkit.progress import Progress
from benchkit.store.bank import Bank
from benchkit.store.columns import Column, Ragged

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
        import torch

        self.keys = list(keys)
        self.model, self.preprocess, self.device, self.platform = model, preprocess, device, platform
        self.torch = torch
        self.backbone = backbone.to(device).eval()
        if backbone.layer_unit == "stage":  # convolutions run 1.23 times faster on channels-last memory
            self.backbone = self.backbone.to(memory_format=torch.channels_last)
        self.net = torch.compile(self.backbone) if model.compile else self.backbone
        self.images = 0
        self._buffers: dict[tuple[int, int], Any] = {}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one row per key.

        Raises:
            UsageError: a map's sides are no multiples of model.features.dense_stride.
        """
        height, width = self.preprocess.shape(self.preprocess.size, self.preprocess.size)
        found = self.backbone.shapes(height, width, self.keys)
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

    def answers(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """Features of a batch of inputs uint8 (B, h, w, 3): float32 by key."""
        return self._answered(self.torch.from_numpy(images).permute(0, 3, 1, 2))

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

        Raises:
            RunError: unreadable image, not finite feature, out of memory; what was finished is in the bank.
            KeyboardInterrupt: after the open part was written.
        """
        lacking = bank.missing((p.sha256 for p in pictures), columns)
        for missing, group in lacking_by_columns(lacking, pictures):
            part = _Part(bank, missing, self.platform)
            work = batches(group, self.preprocess, self.model.batch_size)
            decoded = decoded_batches(work, self.preprocess, workers, on_error)
            try:
                for batch in decoded:
                    part.add(self._rows(batch, missing))
                    progress.advance(len(batch))
                    self.images += len(batch)
            finally:  # whatever stops the loop, finished rows are kept
                part.close()
                decoded.close()
        bank.scan()
        return progress.finish()

    def _rows(self, batch: list[Decoded], columns: Sequence[str]) -> dict[str, Any]:
        good = [d for d in batch if not d.problem]
        features = self._features(good) if good else {}
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

    def _value(
        self, column: str, item: Decoded, reason: str, features: Mapping[str, np.ndarray], position: Mapping[int, int]
    ) -> Any:
        if column == "thumb":
            return item.thumb if item.thumb is not None else np.zeros(0, np.uint8)
        if column == "size":
            return np.array([item.picture.height, item.picture.width], np.int32)
        key = column.removeprefix("features/")
        if reason:
            return np.zeros(self._row_shape(key, features), self.dtype(key))
        return features[key][position[id(item)]]

    def _row_shape(self, key: str, features: Mapping[str, np.ndarray]) -> tuple[int, ...]:
        if FeatureKey.parse(key).points:  # no image, no points
            return (0, *self.shapes[key][1:])
        return features[key].shape[1:] if key in features else self.shapes[key]

    def _features(self, good: list[Decoded]) -> dict[str, np.ndarray]:
        rows = [d.pixels for d in good]
        rows += [rows[-1]] * (self.model.batch_size - len(rows))  # the last batch repeats its last image
        pixels = self.torch.stack([row.permute(1, 2, 0) for row in rows]).permute(0, 3, 1, 2)  # channels-last, one copy
        outputs = self._answered(pixels)
        with np.errstate(over="ignore"):  # an overflow shows as infinity and is reported with the item's name
            return {key: self._stored(key, value[: len(good)]) for key, value in outputs.items()}

    def _stored(self, key: str, value: Any) -> Any:
        dtype = self.dtype(key)
        return [each.astype(dtype) for each in value] if isinstance(value, list) else value.astype(dtype)

    def _run(self, pixels: Any) -> dict[str, np.ndarray]:
        torch = self.torch
        amp = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.model.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, amp, enabled=amp is not None):
            inputs = self.preprocess.normalise(pixels.to(self.device, non_blocking=True), self._buffer(pixels.shape))
            outputs = self.net(inputs, self.keys)
            return {str(key): self._on_host(str(key), value) for key, value in outputs.items()}

    def _on_host(self, key: str, value: Any) -> Any:
        """Arrays (B, ...); of local features a list of B."""
        if isinstance(value, list):
            return [each.float().cpu().numpy() for each in value]
        return self._coarser(key, value.float()).cpu().numpy()

    def _coarser(self, key: str, value: Any) -> Any:
        stride = self._stride(key)
        return value if stride == 1 else self.torch.nn.functional.avg_pool2d(value, stride)

    def texts(self, prompts: Sequence[str]) -> np.ndarray:
        """Embeddings float32 (batch_size, D) of exactly `model.batch_size` prompts."""
        torch = self.torch
        amp = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.model.precision)
        with torch.inference_mode(), torch.autocast(self.device.type, amp, enabled=amp is not None):
            return self.backbone.text(prompts).float().cpu().numpy()

    def _buffer(self, shape: Any) -> Any:
        """Where the model's input of one shape is written, again and again; devices that allocate fast need none."""
        if self.device.type != "cpu":
            return None
        count, channels, height, width = shape
        key = (count * height, width * channels)
        if key not in self._buffers:
            self._buffers = {key: self.torch.empty(key)}  # one at a time: with `pad`, shapes come one after the other
        return self._buffers[key]

    def _answered(self, pixels: Any) -> dict[str, np.ndarray]:
        outputs = self._fitting(pixels)
        if outputs is None:
            raise RunError(self._memory_message(pixels))
        return outputs

    def _fitting(self, pixels: Any) -> dict[str, np.ndarray] | None:
        """The outputs, or None when they do not fit in memory. The error is let go: its frames hold what filled it."""
        try:
            return self._run(pixels)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()
        return None

    def _memory_message(self, pixels: Any) -> str:
        size = self.model.batch_size
        while size > 1:
            size //= 2
            if self._fitting(pixels[:size]) is None:
                continue
            return (
                f"out of memory with model.batch_size={self.model.batch_size}; {size} fits: run again with "
                f"model.batch_size={size} --overwrite. Features depend on the batch size, so this is a bank of its own."
            )
        return "out of memory even with one image: use a smaller model or data.size, or another model.device."


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory did not suffice."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text


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
        """Take a whole batch, in one step: an interrupt finds it in the part or not."""
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
