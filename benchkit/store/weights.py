"""What a weights file claims, against its size: a few bytes can ask for any amount of memory, though no code of theirs runs."""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

PICKLE = "data.pkl"
LARGEST_PICKLE = 64 << 20  # bytes of names and shapes
PICKLES = 5  # that a file of torch before 1.6 begins with
MAKERS = ("bytearray",)  # what torch.load(weights_only=True) calls with a size of the file's choice


def refuse_bombs(path: Path) -> None:
    """Look at a .pt file before torch does.

    Raises:
        ValueError: its records are compressed or claim more bytes than it has, or it asks for memory by a number.
        OSError, zipfile.BadZipFile, EOFError: it is damaged.
    """
    left = PICKLES
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            while file.tell() < path.stat().st_size and (left := left - 1) >= 0:
                _refuse_makers(file)
        return
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        packed = next((entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED), None)
        if packed is not None or sum(entry.file_size for entry in entries) > path.stat().st_size:
            raise ValueError("its records are compressed, or claim more bytes than the file has")
        for entry in entries:
            if entry.filename.rpartition("/")[2] == PICKLE:
                if entry.file_size > LARGEST_PICKLE:
                    raise ValueError(f"its list of names has {entry.file_size:,} bytes")
                with archive.open(entry) as file:
                    _refuse_makers(file)


def _refuse_makers(file: IO[bytes]) -> None:
    for name in _named(file):
        if name in MAKERS:
            raise ValueError(f"it makes a {name}, which no tensor needs")


def _named(file: IO[bytes]) -> Iterator[str]:
    """Names of what a pickle imports, and all its short texts: a name may lie on its stack."""
    for code, argument, _ in pickletools.genops(file):
        if isinstance(argument, str):
            yield argument.rpartition(" ")[2] if code.name == "GLOBAL" else argument


def refuse_claims(state: Mapping[str, Tensor], size: int) -> None:
    """Raises ValueError where tensors would have more numbers than the file of so many bytes holds."""
    storages = {}
    for name, tensor in state.items():
        if str(tensor.layout) != "torch.strided" or tensor.is_meta or tensor.is_nested or tensor.is_quantized:
            raise ValueError(f"{name} is no plain tensor")
        storage = tensor.untyped_storage()
        if tensor.numel() * tensor.element_size() > storage.nbytes():
            raise ValueError(
                f"{name} claims the shape {tuple(tensor.shape)}, and is stored in {storage.nbytes():,} bytes"
            )
        storages[storage.data_ptr()] = storage.nbytes()
    if sum(storages.values()) > size:
        raise ValueError("its tensors are larger than the file")
