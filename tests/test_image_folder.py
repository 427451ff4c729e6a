"""Image folders: which files become items of which class and split, and what is refused by name before any forward."""

import io
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchkit.datasets import _listing
from benchkit.datasets.image_folder import ImageFolder, Settings
from benchkit.errors import UsageError

_number = itertools.count()


def jpeg(seed: int | None = None, colour: int | None = None) -> bytes:
    """A photo like no other, of a shade of its class."""
    rng = np.random.default_rng(next(_number) if seed is None else seed)
    pixels = rng.integers(0, 60, (24, 32, 3)) + (rng.integers(0, 190, 3) if colour is None else colour)
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "JPEG")
    return buffer.getvalue()


def put(root: Path, *names: str, data: bytes | None = None) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg() if data is None else data)


def folder(root: Path, **settings: object) -> ImageFolder:
    return ImageFolder(Settings(root=str(root), **settings))


def classes_of(root: Path, **settings: object) -> list[str]:
    return folder(root, **settings).classes


def refusal(root: Path, asked: str = "test", **settings: object) -> str:
    def read() -> None:
        made = folder(root, **settings)
        made.items(asked)
        made.meta()

    with pytest.raises(UsageError) as caught:
        read()
    return str(caught.value)


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """train/ and test/, cat and dog."""
    put(tmp_path, *(f"{s}/{c}/{i}.jpg" for s in ("train", "test") for c in ("dog", "cat") for i in range(3)))
    return tmp_path


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """Classes of 20, 8 and 1 images."""
    counts = {"dog": 20, "Cat": 8, "ant": 1}
    put(tmp_path, *(f"{c}/{i}.jpg" for c, count in counts.items() for i in range(count)))
    return tmp_path


def test_layout_with_splits(split):
    data = folder(split, train_split="train")
    assert data.items("test") == [f"test/{c}/{i}.jpg" for c in ("cat", "dog") for i in range(3)]
    assert data.items("train")[0] == "train/cat/0.jpg"
    assert data.classes == ["cat", "dog"]
    assert [int(data.target(item)["label"]) for item in data.items("test")] == [0, 0, 0, 1, 1, 1]
    assert data.label("test/dog/0.jpg") == "dog"
    assert data.path("test/dog/0.jpg") == split / "test/dog/0.jpg"
    assert data.image("test/dog/0.jpg").shape == (24, 32, 3)


def test_layout_without_splits(flat):
    data = folder(flat, train_split="train")
    train, test = data.items("train"), data.items("test")
    assert sorted([*train, *test]) == sorted(str(p.relative_to(flat)) for p in flat.glob("*/*.jpg"))
    assert not set(train) & set(test)
    assert {c: sum(name.startswith(c) for name in test) for c in ("Cat", "ant", "dog")} == {
        "Cat": 2,
        "ant": 0,
        "dog": 5,
    }
    assert data.classes == ["Cat", "ant", "dog"]  # as sorted() does


def test_leave_one_out_takes_all(flat):
    assert len(folder(flat, train_split="none").items("test")) == 29
    assert len(folder(flat, train_split="test").items("test")) == 29
    assert len(folder(flat, train_split="none", test_fraction=0.5).items("test")) == 14


def test_seeded_split_ignores_the_order_of_listing(flat, monkeypatch):
    first = folder(flat, train_split="train").items("test")
    plain = os.scandir

    class Backwards:
        def __init__(self, path: str) -> None:
            with plain(path) as entries:
                self.entries = list(entries)[::-1]

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(_listing.os, "scandir", Backwards)
    assert folder(flat, train_split="train").items("test") == first


def test_seeded_split_depends_on_seed_and_hardly_on_other_files(flat):
    first = set(folder(flat, train_split="train").items("test"))
    assert set(folder(flat, train_split="train", split_seed=1).items("test")) != first
    put(flat, "dog/new.jpg", "bird/0.jpg")
    second = set(folder(flat, train_split="train").items("test"))
    assert {n for n in first if not n.startswith("dog")} == {n for n in second if not n.startswith(("dog", "bird"))}
    assert len(first - second) <= 1


def test_what_archivers_and_systems_leave_behind_is_no_class_and_no_image(split):
    expected = folder(split).items("test")
    photo = jpeg()
    put(split, ".ipynb_checkpoints/x/a.jpg", "__MACOSX/test/cat/a.jpg", ".hidden/cat/a.jpg", data=photo)
    put(split, "test/.ipynb_checkpoints/a.jpg", "test/__MACOSX/a.jpg", "test/@eaDir/a.jpg", data=photo)
    put(split, "test/cat/._0.jpg", "test/cat/.DS_Store", "test/cat/Thumbs.db", "test/cat/0.jpg~", data=photo)
    put(split, "test/cat/.ipynb_checkpoints/0-checkpoint.jpg", data=photo)
    data = folder(split)
    assert data.items("test") == expected
    assert data.classes == ["cat", "dog"]
    assert data.notes() == []


def test_other_files_are_left_out_and_counted(split):
    put(split, "test/cat/a.HEIC", "test/cat/b.heic", "test/dog/readme", "train/dog/labels.txt", data=b"x")
    data = folder(split)
    assert len(data.items("test")) == 6
    assert ".heic 2" in data.notes()[0]
    assert "4 files" in data.notes()[0]


def test_suffixes_in_capitals_and_two_files_with_one_stem(split):
    put(split, "test/cat/A.JPG", "test/cat/a.jpeg", "test/cat/a.png", "test/cat/a.WebP")
    assert {"test/cat/A.JPG", "test/cat/a.jpeg", "test/cat/a.png", "test/cat/a.WebP"} <= set(
        folder(split).items("test")
    )


def test_folders_below_classes(split):
    put(split, "test/cat/night/a.jpg", "test/cat/night/deep/er/b.jpg")
    data = folder(split)
    assert data.label("test/cat/night/deep/er/b.jpg") == "cat"
    assert {"test/cat/night/a.jpg", "test/cat/night/deep/er/b.jpg"} <= set(data.items("test"))
    deep = "test/cat/" + "d/" * 40 + "c.jpg"
    put(split, deep)
    assert deep in folder(split).items("test")


def test_linked_classes_and_loops(split, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    put(elsewhere, "a.jpg")
    (split / "test/emu").symlink_to(elsewhere)
    (split / "test/cat/again").symlink_to(split / "test/cat")
    (split / "test/cat/all").symlink_to(split)
    (split / "test/dog/split").symlink_to(split / "test")
    (elsewhere / "back").symlink_to(elsewhere)
    data = folder(split)
    assert data.items("test") == [
        *(f"test/cat/{i}.jpg" for i in range(3)),
        *(f"test/dog/{i}.jpg" for i in range(3)),
        "test/emu/a.jpg",
    ]
    assert data.classes == ["cat", "dog", "emu"]


def test_a_class_folder_that_is_a_link_to_nothing_is_an_error(split):
    (split / "test/emu").symlink_to("/nowhere/emu")
    assert "test/emu is a link to /nowhere/emu" in refusal(split)


def test_a_link_that_points_at_itself(split):
    (split / "test/emu").symlink_to("emu")
    assert "test/emu is a link to emu" in refusal(split)


def test_empty_class_folders_are_no_classes(split):
    (split / "test/emu").mkdir()
    put(split, "test/notes/readme.txt", data=b"x")
    assert classes_of(split) == ["cat", "dog"]


def test_classes_of_one_split_only_count_on_both_sides(split):
    put(split, "test/emu/0.jpg", "train/fox/0.jpg", "val/gnu/0.jpg")
    assert classes_of(split, train_split="train") == ["cat", "dog", "emu", "fox"]
    assert classes_of(split, train_split="none") == ["cat", "dog", "emu"]
    assert classes_of(split, train_split="val") == ["cat", "dog", "emu", "gnu"]


def test_one_class(tmp_path):
    put(tmp_path, "test/cat/0.jpg", "train/cat/1.jpg")
    assert "one class only ('cat')" in refusal(tmp_path)


def test_no_folder_no_images(tmp_path):
    assert "holds no images" in refusal(tmp_path)
    assert "is no folder" in refusal(tmp_path / "missing")
    put(tmp_path, "file")
    assert "is no folder" in refusal(tmp_path / "file")
    with pytest.raises(UsageError, match=r"data\.root=DIR"):
        ImageFolder(Settings(root=""))
    put(tmp_path, "cat/a.heic", "dog/b.heic", data=b"x")
    assert ".heic 2" in refusal(tmp_path)


def test_a_split_that_is_not_there(split):
    message = refusal(split, "val", split="val")
    assert "'val'" in message
    assert "test, train" in message


def test_images_outside_class_folders_are_named(split):
    put(split, "astray.jpg")
    assert str(split / "astray.jpg") in refusal(split)
    (split / "astray.jpg").unlink()
    put(split, "test/astray.jpg")
    assert str(split / "test/astray.jpg") in refusal(split)
    assert str(split / "test/astray.jpg") in refusal(split, "train", train_split="train")


def test_splits_that_hold_images_are_never_taken_as_classes(tmp_path):
    put(tmp_path, "train/0.jpg", "test/0.jpg")
    assert str(tmp_path / "test/0.jpg") in refusal(tmp_path)
    put(tmp_path, "extra/0.jpg", "train/cat/0.jpg", "test/cat/1.jpg")
    assert str(tmp_path / "test/0.jpg") in refusal(tmp_path)


def test_images_only(tmp_path):
    put(tmp_path, "a.jpg", "b.jpg")
    assert "2 images lie outside any class folder" in refusal(tmp_path)


def test_classes_with_folders_below_are_no_splits(tmp_path):
    put(tmp_path, "cat/0.jpg", "cat/night/1.jpg", "dog/night/2.jpg")
    data = folder(tmp_path, train_split="none")
    assert data.items("test") == ["cat/0.jpg", "cat/night/1.jpg", "dog/night/2.jpg"]
    assert data.classes == ["cat", "dog"]


def test_a_fraction_has_no_use_where_there_are_splits(split):
    assert "data.test_fraction" in refusal(split, test_fraction=0.5)


@pytest.mark.parametrize("fraction", [0, -0.1, 1.5, float("nan")])
def test_bad_fractions(split, fraction):
    assert "data.test_fraction" in refusal(split, test_fraction=fraction)


def test_odd_names(split):
    names = [f"test/cat/{n}.jpg" for n in ("50%", "%s %d", "a b", "naïve 猫", "q'\"", "[x]", "-v", "a;b", "$HOME")]
    put(split, *names, "test/Łódź%/0.jpg")
    data = folder(split)
    assert {*names, "test/Łódź%/0.jpg"} <= set(data.items("test"))
    assert data.image("test/cat/naïve 猫.jpg").shape == (24, 32, 3)
    assert "Łódź%" in data.classes


@pytest.mark.parametrize("name", [b"a\nb.jpg", b"a\tb.jpg", b"caf\xe9.jpg", b"\x7f.jpg"])
def test_names_that_results_could_not_hold(split, name):
    path = os.path.join(os.fsencode(split), b"test", b"cat", name)
    with open(path, "wb") as file:
        file.write(jpeg())
    message = refusal(split)
    assert "Rename it" in message
    assert message.isprintable()


def test_a_class_named_beyond_utf8(split):
    os.mkdir(os.path.join(os.fsencode(split), b"test", b"\xff\xfe"))
    assert "Rename it" in refusal(split)


def test_a_folder_that_may_not_be_listed(split, monkeypatch):
    plain = os.scandir

    def scandir(path):
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(_listing.os, "scandir", scandir)
    assert "dog cannot be read (Permission denied)" in refusal(split)
