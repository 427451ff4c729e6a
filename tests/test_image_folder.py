"""Image folders: which files become items of which class and split, and what is refused by name before any forward."""

import io
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import benchkit
from benchkit.datasets import _listing
from benchkit.datasets.image_folder import ImageFolder, Settings
from benchkit.errors import RunError, UsageError
from benchkit.export import split as export_split

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


def test_names_of_classes_for_people(split):
    assert folder(split).meta() == {"classes": ["cat", "dog"]}
    put(split, "names.txt", data=b"dog\tHund, Hofhund\ncat\tKatze\n")
    data = folder(split, class_names=str(split / "names.txt"))
    assert data.meta() == {"classes": ["cat", "dog"], "class_names": ["Katze", "Hund"]}
    assert (folder(split).target_files("test/cat/0.jpg"), len(data.target_files("test/cat/0.jpg"))) == ([], 1)


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


class Pool(torch.nn.Module):
    """Mean colours of four cells."""

    forwards = 0

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        type(self).forwards += 1
        return torch.nn.functional.adaptive_avg_pool2d(image, 2).flatten(1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    put(tmp_path / "photos", *(f"{s}/{c}/{i}.jpg" for s in ("train", "test") for c in ("dog", "cat") for i in range(4)))
    return tmp_path / "photos"


def export(root: Path, *arguments: str, benchmark: str = "classification", tag: str = "pool", **options: object):
    """Export and score; in batches of 2."""
    Pool.forwards = 0
    return benchkit.run(
        Pool(),
        benchmark,
        data=root,
        tag=tag,
        preprocess={"size": 16, "mean": [0.5] * 3, "std": [0.5] * 3},
        arguments=["model.batch_size=2", *arguments],
        outputs=root.parent / "outputs",
        say=lambda _: None,
        **options,
    )


def hurt(path: Path) -> bytes:
    """Cut the end off the pixels and put the end mark back: nothing shows before decoding. Returns what it was."""
    whole = path.read_bytes()
    path.write_bytes(whole[:-90] + b"\xff\xd9")
    return whole


def stopped(error: type[Exception], root: Path, *arguments: str, **options: object) -> str:
    with pytest.raises(error) as caught:
        export(root, *arguments, **options)
    return str(caught.value)


HEADER_FAULTS = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_bytes(b"<html>404</html>"),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-90]),
    "unwritten": lambda path: path.write_bytes(path.read_bytes()[:-90] + bytes(90)),
    "dangling": lambda path: (path.unlink(), path.symlink_to("nowhere.jpg")),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("fault", HEADER_FAULTS)
@pytest.mark.parametrize("name", ["test/cat/2.jpg", "train/dog/1.jpg"])
def test_unreadable_files_stop_before_the_first_forward_or_are_skipped_and_shown(photos, fault, name):
    HEADER_FAULTS[fault](photos / name)
    assert name in stopped(UsageError, photos)
    assert Pool.forwards <= 3  # it is looked at, and shown none of the data
    record = export(photos, "data.on_error=skip").record
    assert list(record["data"]["skipped"]) == [name]
    assert record["data"]["n_items"] + record["data"]["n_train"] == 15
    assert name in record["data"]["skipped"][name]


def test_unreadable_files_are_not_copies_of_each_other(photos):
    put(photos, "test/cat/x.jpg", "test/dog/x.jpg", data=b"")
    assert len(export(photos, "data.on_error=skip").record["data"]["skipped"]) == 2


@pytest.mark.parametrize("split", ["train", "test"])
def test_skipping_never_takes_a_whole_class(photos, split):
    for path in photos.glob(f"{split}/cat/*"):
        path.write_bytes(b"")
    message = stopped(UsageError, photos, "data.on_error=skip")
    assert "class 'cat'" in message
    assert f"{split}/cat/0.jpg" in message
    assert Pool.forwards <= 3  # it is looked at, and shown none of the data


def test_one_photo_under_two_labels_or_in_two_splits(photos):
    photo = jpeg()
    put(photos, "test/cat/x.jpg", "test/dog/y.jpg", data=photo)
    message = stopped(UsageError, photos)
    assert "under two labels" in message
    assert "test/cat/x.jpg = test/dog/y.jpg" in message
    put(photos, "train/cat/z.jpg", data=photo)
    assert "in train and test" in stopped(UsageError, photos)
    assert Pool.forwards <= 3  # it is looked at, and shown none of the data
    record = export(photos, "data.on_duplicate=keep").record
    assert record["data"]["duplicates"] == {"same_split": 0, "across_splits": 1, "two_labels": 1}


def test_copies_within_a_class_are_counted_only(photos):
    put(photos, "test/cat/x.jpg", "test/cat/y.jpg", data=jpeg())
    record = export(photos).record
    assert record["data"]["duplicates"] == {"same_split": 1, "across_splits": 0, "two_labels": 0}


def test_a_damaged_body_stops_by_name_and_keeps_what_is_done(photos):
    name = "test/dog/3.jpg"
    whole = hurt(photos / name)
    assert name in stopped(RunError, photos)
    assert Pool.forwards > 1
    assert list((photos.parent / "outputs").glob("features/*/part-*.h5"))
    assert not list((photos.parent / "outputs").glob("results/*/*/record.json"))
    (photos / name).write_bytes(whole)
    made = export(photos, overwrite=True)  # the data are others than the unfinished export was begun with
    assert 1 <= Pool.forwards < 15  # some of them look at what the module is
    assert made.record["data"]["skipped"] == {}


def test_a_damaged_body_is_skipped_with_a_reason(photos):
    hurt(photos / "test/dog/3.jpg")
    skipped = export(photos, "data.on_error=skip").record["data"]["skipped"]
    assert list(skipped) == ["test/dog/3.jpg"]
    assert "premature end" in skipped["test/dog/3.jpg"]


def test_a_file_that_changes_between_its_hash_and_its_decoding(photos, monkeypatch):
    read = export_split.read_manifest

    def then_change(*arguments):
        facts = read(*arguments)
        put(photos, "test/cat/2.jpg")
        return facts

    monkeypatch.setattr(export_split, "read_manifest", then_change)
    for policy in ("stop", "skip"):
        assert "test/cat/2.jpg changed" in stopped(RunError, photos, f"data.on_error={policy}", tag=policy)


def test_replaced_content_is_noticed_a_new_time_is_not(photos):
    first = export(photos)
    name = photos / "test/cat/2.jpg"
    os.utime(name, (1, 1))
    assert export(photos).record["data"]["dataset_id"] == first.record["data"]["dataset_id"]
    assert Pool.forwards <= 3  # it is looked at, and shown none of the data
    put(photos, "test/cat/2.jpg")
    message = stopped(UsageError, photos)
    assert "dataset_id" in message
    assert "--overwrite" in message
    second = export(photos, overwrite=True)
    assert second.record["data"]["dataset_id"] != first.record["data"]["dataset_id"]
    assert Pool.forwards <= 8  # one image in one batch, and looks at what the module is


def test_replaced_content_of_equal_size_and_time_is_noticed(photos):
    """As `rsync -t` or `cp -p` bring it."""
    path = photos / "test/cat/x.bmp"
    for shade in (10, 200):
        Image.fromarray(np.full((20, 20, 3), shade, np.uint8)).save(path)
        os.utime(path, ns=(5, 5))
        if shade == 10:
            export(photos)
    assert "dataset_id" in stopped(UsageError, photos)


def test_files_are_read_once_and_remembered(photos, monkeypatch):
    export(photos)
    read = Path.read_bytes

    def others_only(path: Path) -> bytes:
        assert not path.is_relative_to(photos), f"{path} was read again"
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", others_only)
    export(photos)


def test_names_come_through_as_they_are(photos):
    odd = [f"test/cat/{name}.jpg" for name in ("50%", "a b", "naïve 猫", "q'\"", "x=1")]
    put(photos, *odd)
    assert set(odd) <= set(export(photos).items["names"])


def test_turned_photos_are_upright_in_every_frame(photos):
    """A photo stored turned gives the features of the same photo stored upright."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 64, 3), dtype=np.uint8)
    block = Image.Exif()
    block[0x0112] = 8
    Image.fromarray(np.rot90(pixels, -1).copy()).save(photos / "test/cat/x.png", exif=block)
    Image.fromarray(pixels).save(photos / "test/cat/y.png")
    for resize in ("crop", "pad", "squash"):
        export(photos, f"data.resize={resize}", benchmark="retrieval", tag=resize)
        embedded = _predictions(photos.parent / "outputs" / "results" / "retrieval" / resize)
        np.testing.assert_allclose(embedded["test/cat/x.png"], embedded["test/cat/y.png"], atol=1e-6)


def _predictions(folder: Path) -> dict[str, np.ndarray]:
    from benchkit.store.table import Table

    with Table(folder / "predictions.h5", "predictions") as table:
        return dict(zip(table.names, np.asarray(table.read(table.columns[0])), strict=True))
