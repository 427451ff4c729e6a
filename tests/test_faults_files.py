"""Each kind of file cut off, half copied, with a flipped bit, of something else and of another version: no command gives another
number, and the export that is asked for mends it or says what does."""

from __future__ import annotations

import contextlib
import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_image_folder import put

from benchkit.errors import BenchkitError
from benchkit.eval import _evaluation, evaluate
from benchkit.export import export
from benchkit.export.job import Outcome
from benchkit.provenance.record import sealed
from benchkit.store import seal
from benchkit.store.verify import folder_content, verify_tree

Injected = Callable[..., None]
GOLDEN = Path(__file__).parent / "golden" / "v1"
TAG = "results/classification/tiny"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of photos; what was exported and scored of it in `outputs`; in `unfinished` the half that one worker did."""
    root = tmp_path_factory.mktemp("made")
    for split in ("train", "test"):
        put(root / "photos", *(f"{split}/{name}/{n}.jpg" for name in ("cat", "dog") for n in range(6)))
    assert isinstance(again(root / "outputs", root / "photos"), Outcome)
    evaluate("classification", "tiny", outputs=root / "outputs")
    assert isinstance(again(root / "unfinished", root / "photos", shard="0/2"), Outcome)
    return root


@pytest.fixture(scope="module")
def good(made: Path) -> dict[str, Any]:
    """The numbers."""
    summaries = evaluate("classification", "tiny", outputs=made / "outputs").summaries
    return {"summaries": summaries, "content": folder_content(made / "outputs" / TAG)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few resamples: what is tested is what is read."""
    monkeypatch.setattr(_evaluation, "RESAMPLES", 10)


def again(outputs: Path, photos: Path, **options: Any) -> Outcome | BenchkitError:
    """The export, as it was typed."""
    settings = [f"data.root={photos}", "model.batch_size=4", "model.head.strength=1"]
    given = {"tag": "tiny", "outputs": outputs, "arguments": settings, "say": str, **options}
    return export("color_histogram", "classification", **given)[0]


def of_version(data: bytes, version: int) -> bytes:
    """A sealed file that says it has another format version."""
    length = int.from_bytes(data[-12:-4], "little")
    trailer = {**json.loads(data[-20 - length : -20]), "version": version}
    text = json.dumps(trailer, sort_keys=True, separators=(",", ":")).encode()
    seals = len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(4, "little")
    return data[: -20 - length] + text + seal.MAGIC + seals


def cuts(data: bytes) -> Iterator[bytes]:
    yield from (data[: len(data) * part // 8] for part in (0, 4, 7))
    yield data[:-1]


def halves(data: bytes) -> Iterator[bytes]:
    """As a copy that was stopped, into a file that has its length already."""
    yield from (data[:end].ljust(len(data), b"\0") for end in (len(data) // 2, len(data) * 9 // 10))


def flips(data: bytes) -> Iterator[bytes]:
    for part in (1, 5, 9, 14):
        place = len(data) * part // 16
        yield data[:place] + bytes([data[place] ^ 1 << part % 8]) + data[place + 1 :]


def foreign(data: bytes) -> Iterator[bytes]:
    """Text, and a sealed file of another kind."""
    yield b"hello\n"
    yield (
        (GOLDEN / "results.h5").read_bytes() if b'"kind":"results"' not in data else (GOLDEN / "thumbs.h5").read_bytes()
    )


def versions(data: bytes) -> Iterator[bytes]:
    if data[-20:].startswith(seal.MAGIC):
        yield of_version(data, 2)
    elif b'"schema"' in data:
        yield json.dumps(sealed({**json.loads(data), "schema": 2})).encode()


DAMAGES = {
    "file cut off": cuts,
    "file copied by half": halves,
    "file with a flipped bit": flips,
    "file of something else": foreign,
    "file of another version": versions,
}


class Case:
    """A copy of outputs in which one file is damaged, and what commands make of it."""

    def __init__(self, made: Path, source: str, name: str) -> None:
        self.made, self.source, self.name = made, source, name
        self.outputs = made / "damaged"

    def damage(self, data: bytes) -> None:
        shutil.rmtree(self.outputs, ignore_errors=True)
        shutil.copytree(self.made / self.source, self.outputs)
        path = self.outputs / self.name
        path.chmod(0o644)
        path.write_bytes(data)
        path.chmod(0o444)

    def found(self, good: dict[str, Any]) -> str:
        """What is wrong; "" when every number is right or refused, and the file can be mended."""
        if not self.evaluates(good):
            return "eval gives other numbers"
        for deleted, overwrite in ((False, False), (True, False), (True, True)):
            if deleted:
                (self.outputs / self.name).unlink(missing_ok=True)
            end = again(self.outputs, self.made / "photos", overwrite=overwrite)
            if isinstance(end, Outcome):
                if not self.evaluates(good):
                    return "after the export eval gives other numbers"
                with contextlib.suppress(BenchkitError):
                    evaluate("classification", "tiny", outputs=self.outputs)
                    if folder_content(self.outputs / TAG) == good["content"]:
                        return ""
            elif self.outputs.name not in str(end):
                return f"says not where: {end}"
        return "not mended by deleting it and --overwrite"

    def evaluates(self, good: dict[str, Any]) -> bool:
        with contextlib.suppress(BenchkitError):
            return evaluate("classification", "tiny", outputs=self.outputs).summaries == good["summaries"]
        return True


def files(root: Path) -> list[str]:
    """Of each kind that lies below a folder; the first of several parts stands for all."""
    found = [p.relative_to(root).as_posix() for p in sorted(root.rglob("*")) if p.is_file() and p.suffix != ".lock"]
    kinds: dict[str, str] = {}
    for name in found:
        kind = name.split("part-")[0] if "part-" in name else name
        kinds.setdefault(kind, name)
    return list(kinds.values())


@pytest.mark.slow
@pytest.mark.parametrize("source", ["outputs", "unfinished"])
@pytest.mark.parametrize("fault", [pytest.param(name, marks=pytest.mark.fault(name)) for name in DAMAGES])
def test_no_wrong_number_and_it_can_be_mended(
    made: Path, good: dict[str, Any], source: str, fault: str, injected: Injected
) -> None:
    wrong = {}
    names = files(made / source)
    assert len(names) >= (14 if source == "outputs" else 5), names
    for name in names:
        case = Case(made, source, name)
        for number, data in enumerate(DAMAGES[fault]((made / source / name).read_bytes())):
            case.damage(data)
            injected(1)
            if why := case.found(good):
                wrong[f"{name} {number}"] = why
    assert wrong == {}


@pytest.mark.fault("file of another version")
def test_what_an_older_version_wrote_is_read(injected: Injected) -> None:
    """`golden/v1` is kept for ever; `test_golden.py` knows its numbers."""
    report = verify_tree(GOLDEN)
    injected(len(report["files"]))
    assert report["damaged"] == 0
    assert len(report["files"]) >= 7
