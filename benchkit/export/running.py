"""The net on its device: a batch of pixels in, its features out, without waiting where the device works by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from benchkit.conf.model import ModelSettings
from benchkit.errors import RunError, out_of_memory
from benchkit.preprocess import Preprocess

Answers = dict[str, Any]  # by feature key: array (B, ...); of local features a list of B arrays
AHEAD = 2  # batches given to a CUDA device before the first one's answers are read: it never waits for this process
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Running:
    """A backbone on its device.

    Args:
        backbone: `benchkit.backbones.base.Backbone`.
        model: precision, batch size, whether it is compiled.
        preprocess: normalises.
        device: torch device.

    Attributes:
        ahead: batches to launch before the answers of the first are read; 0 where a launch returns when all is done.
    """

    def __init__(self, backbone: Any, model: ModelSettings, preprocess: Preprocess, device: torch.device) -> None:
        self.model, self.preprocess, self.device = model, preprocess, device
        self.cuda = device.type == "cuda"
        self.ahead = AHEAD if self.cuda else 0
        self.backbone = backbone.to(device).eval()
        if backbone.layer_unit == "stage":  # convolutions run 1.23 times faster on channels-last memory
            self.backbone = self.backbone.to(memory_format=torch.channels_last)
        self.net = torch.compile(self.backbone) if model.compile else self.backbone
        self._buffers: dict[tuple[int, int], Any] = {}

    def batch(self, rows: Sequence[Any]) -> Any:
        """Pixels uint8 (3, h, w) of equal shape as one batch (B, 3, h, w), channels-last; pinned for a copy to CUDA."""
        first = rows[0].permute(1, 2, 0)
        whole = torch.empty((len(rows), *first.shape), dtype=first.dtype, pin_memory=self.cuda)
        return torch.stack([row.permute(1, 2, 0) for row in rows], out=whole).permute(0, 3, 1, 2)

    def launch(
        self, pixels: Any, keys: Sequence[Any], rows: int, finish: Callable[[str, Any], Any]
    ) -> Callable[[], Answers]:
        """Start a forward; what is returned waits for its answers.

        Args:
            pixels: uint8 (B, 3, h, w), on the CPU.
            keys: feature keys.
            rows: so many of the batch are asked for; the others fill it up.
            finish: done on the device with each float32 answer, given its key.

        Raises:
            RunError: out of memory; names a batch size that fits.
        """
        started = self._fitting(pixels, keys, rows, finish)
        if started is None:
            raise RunError(self._memory_message(pixels, keys))
        return started

    def texts(self, prompts: Sequence[str]) -> np.ndarray:
        """Embeddings float32 (B, D) of prompts."""
        with self._set():
            return self.backbone.text(prompts).float().cpu().numpy()

    @contextlib.contextmanager
    def filling(self) -> Iterator[None]:
        """While a bank is filled. On CUDA the cores are the decoders': each resizes in one thread, not in as many as there
        are cores.
        """
        threads = torch.get_num_threads()
        if self.cuda:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if self.cuda:
                torch.set_num_threads(threads)

    @contextlib.contextmanager
    def _set(self) -> Iterator[None]:
        """How every forward runs. On CUDA convolutions are computed in the precision that the conf names (by default
        cuDNN rounds fp32 to 10 bits: TF32), by algorithms that give the same bits again.
        """
        amp = _AUTOCAST.get(self.model.precision)
        exact = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
        with exact, torch.inference_mode(), torch.autocast(self.device.type, amp, enabled=amp is not None):
            yield

    def _started(
        self, pixels: Any, keys: Sequence[Any], rows: int, finish: Callable[[str, Any], Any]
    ) -> Callable[[], Answers]:
        with self._set():
            inputs = self.preprocess.normalise(
                pixels.to(self.device, non_blocking=self.cuda), self._buffer(pixels.shape)
            )
            outputs = self.net(inputs, keys)
            fetched = {str(key): self._fetched(str(key), value[:rows], finish) for key, value in outputs.items()}
        done = torch.cuda.Event() if self.cuda else None
        if done is not None:
            done.record(torch.cuda.current_stream(self.device))

        def answers() -> Answers:
            if done is not None:
                done.synchronize()
            return {
                key: [each.numpy() for each in v] if isinstance(v, list) else v.numpy() for key, v in fetched.items()
            }

        return answers

    def _fetched(self, key: str, value: Any, finish: Callable[[str, Any], Any]) -> Any:
        """On their way to the CPU: tensor (B, ...); of local features a list of B."""
        if isinstance(value, list):
            return [self._copied(finish(key, each.float())) for each in value]
        return self._copied(finish(key, value.float()))

    def _copied(self, value: Any) -> Any:
        """A copy of its own: what a model returns may be a view of all its tokens, or of memory that it uses again."""
        return torch.empty(value.shape, dtype=value.dtype, pin_memory=self.cuda).copy_(value, non_blocking=self.cuda)

    def _buffer(self, shape: Any) -> Any:
        """Where the model's input of one shape is written, again and again; devices that allocate fast need none."""
        if self.device.type != "cpu":
            return None
        count, channels, height, width = shape
        key = (count * height, width * channels)
        if key not in self._buffers:
            self._buffers = {key: torch.empty(key)}  # one at a time: with `pad`, shapes come one after the other
        return self._buffers[key]

    def _fitting(self, *given: Any) -> Callable[[], Answers] | None:
        """A started forward, or None when it does not fit in memory. The error is let go: its frames hold what filled it."""
        try:
            return self._started(*given)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        if self.cuda:
            torch.cuda.empty_cache()
        return None

    def _memory_message(self, pixels: Any, keys: Sequence[Any]) -> str:
        size = self.model.batch_size
        while size > 1:
            size //= 2
            if self._fitting(pixels[:size], keys, size, lambda key, value: value) is None:
                continue
            return (
                f"out of memory with model.batch_size={self.model.batch_size}; {size} fits: run again with "
                f"model.batch_size={size} --overwrite. Features depend on the batch size, so this is a bank of its own."
            )
        return "out of memory even with one image: use a smaller model or data.size, or another model.device."
