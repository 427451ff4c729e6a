"""Lists of images: tables of users, and the joined lists of CUB-200-2011."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_sets

from benchkit.datasets import cub, listed
from benchkit.errors import UsageError

ROWS = ["image,label,split", "a/1.jpg,cat,train", "a/2.jpg,dog,train", "b/3.jpg,dog,test", "4.jpg,cat,test"]


def write(root: Path, rows: list[str], end: str = "\n", start: bytes = b"", name: str = "list.csv") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(start + end.join(rows).encode() + end.encode())
    return path


def open_list(root: Path, **settings: object) -> listed.Listed:
    return listed.build(listed.Settings(root=str(root), **{"train_split": "train", **settings}))


def refusal(root: Path, split: str = "test", kind=listed, **settings: object) -> str:
    with pytest.raises(UsageError) as caught:
        kind.build(kind.Settings(root=str(root), **settings)).items(split)
    return str(caught.value)


def test_items_splits_and_classes(tmp_path):
    write(tmp_path, ROWS)
    tiny_sets.put_images(tmp_path, ["a/1.jpg", "a/2.jpg", "b/3.jpg", "4.jpg"])
    data = open_list(tmp_path)
    assert data.items("test") == ["4.jpg", "b/3.jpg"]
    assert data.items("train") == ["a/1.jpg", "a/2.jpg"]
    assert data.classes == ["cat", "dog"]
    assert int(data.target("b/3.jpg")["label"]) == 1
    assert data.path("b/3.jpg") == tmp_path / "b/3.jpg"
    assert data.image("4.jpg").shape == (24, 32, 3)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_whatever_saved_it(end, start, mark, tmp_path):
    rows = [row.replace(",", mark) for row in ROWS]
    write(tmp_path, [*rows[:2], "", *rows[2:], "  ", ""], end, start)
    assert open_list(tmp_path).items("test") == ["4.jpg", "b/3.jpg"]
    assert open_list(tmp_path).label("b/3.jpg") == "dog"


def test_columns_in_any_order_and_others_beside_them(tmp_path):
    write(tmp_path, ["split, photographer ,label,image", "test,Zoë,tabby cat,x/1.jpg", 'test,"B, C",dog,x/2.jpg'])
    data = open_list(tmp_path, train_split="none")
    assert data.items("test") == ["x/1.jpg", "x/2.jpg"]
    assert data.classes == ["dog", "tabby cat"]


def test_a_list_without_splits_is_divided_by_the_rule_of_folders(tmp_path):
    write(tmp_path, ["image,label", *(f"{c}/{i}.jpg,{c}" for c in ("cat", "dog") for i in range(8))])
    data = open_list(tmp_path)
    assert len(data.items("test")) == 4
    assert sorted([*data.items("test"), *data.items("train")]) == [
        f"{c}/{i}.jpg" for c in ("cat", "dog") for i in range(8)
    ]
    assert len(open_list(tmp_path, train_split="none").items("test")) == 16


def test_another_list_of_the_same_images(tmp_path):
    write(tmp_path, ROWS)
    other = write(tmp_path, ["image,label,split", "4.jpg,bird,test"], name="lists/other.tsv")
    for said in ("lists/other.tsv", str(other)):
        assert open_list(tmp_path, list_file=said, train_split="none").label("4.jpg") == "bird"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([*ROWS, "a/1.jpg,cat,test"], "list.csv:6: 'a/1.jpg' is listed a second time, first in line 2"),
        ([*ROWS, "./a/1.jpg,dog,train"], "list.csv:6: 'a/1.jpg' is listed a second time"),
        ([*ROWS, "5.jpg,,test"], "list.csv:6: this line has no label"),
        ([*ROWS, "5.jpg,cat"], "list.csv:6: 2 cells where the header names 3"),
        ([*ROWS, "5.jpg,cat,test,more"], "list.csv:6: 4 cells where the header names 3"),
        ([*ROWS, "../5.jpg,cat,test"], "leads out of data.root"),
        ([*ROWS, "/etc/5.jpg,cat,test"], "leads out of data.root"),
        (["a.jpg,cat,test"], "the header has no column 'image'"),
        ([""], "list.csv is empty"),
        (ROWS[:1], "names no image"),
        (ROWS[:3], "no split 'test'; it has train"),
    ],
)
def test_lists_that_are_not_as_they_should_be(rows, expected, tmp_path):
    write(tmp_path, rows)
    message = refusal(tmp_path)
    assert expected in message
    assert "\n" not in message


def test_a_list_in_another_encoding(tmp_path):
    write(tmp_path, [])
    (tmp_path / "list.csv").write_bytes("image,label\ncafé.jpg,cat\n".encode("latin1"))
    assert "is not UTF-8" in refusal(tmp_path)


def test_nothing_there(tmp_path):
    assert str(tmp_path / "list.csv") in refusal(tmp_path)
    assert "data.root=DIR" in refusal("")
    write(tmp_path, ROWS)
    assert "data.test_fraction" in refusal(tmp_path, test_fraction=0.5)


def test_names_of_classes_from_a_file(tmp_path):
    write(tmp_path, ["image,label,split", "1.jpg,n01440764,test", "2.jpg,n02012849,test"])
    names = tmp_path / "LOC_synset_mapping.txt"
    names.write_bytes(b"\xef\xbb\xbfn02012849 crane\r\n\r\nn01440764 tench, Tinca tinca\r\nn99999999 other\r\n")
    data = open_list(tmp_path, train_split="none", class_names=str(names))
    assert data.meta() == {"classes": ["n01440764", "n02012849"], "class_names": ["tench", "crane"]}
    before = data.target_files("1.jpg")
    names.write_text("n02012849\tthe bird\nn01440764\ttench\n", encoding="utf-8")
    data = open_list(tmp_path, train_split="none", class_names=str(names))
    assert data.meta()["class_names"] == ["tench", "the bird"]
    assert data.target_files("1.jpg") != before
    for text, expected in (("n02012849 crane\n", "no line for n01440764"), ("n1\n", ":1: two columns"),
                           ("n1 a\nn1 b\n", "second time")):  # fmt: skip
        names.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=expected):
            open_list(tmp_path, train_split="none", class_names=str(names)).meta()


class TestCub:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        self.truth = tiny_sets.cub200(tmp_path)
        return tmp_path / "CUB_200_2011"

    def open(self, root: Path) -> cub.Cub:
        return cub.build(cub.Settings(root=str(root), train_split="train"))

    def test_items_splits_and_classes(self, root):
        """By hand: images 1, 3, ... are test, and image 9 is the first of the third class, numbered 3 and called 010."""
        data = self.open(root)
        for split in ("train", "test"):
            assert data.items(split) == sorted(self.truth[split])
            assert {item: data.label(item) for item in data.items(split)} == self.truth[split]
        ninth = "images/010.Red_winged_Blackbird/Red_winged_Blackbird_0000.jpg"
        assert ninth in data.items("test")
        assert int(data.target(ninth)["label"]) == 2
        assert data.meta()["class_names"] == ["Black footed Albatross", "Laysan Albatross", "Red winged Blackbird"]
        assert data.path(ninth) == root / ninth
        assert data.image(ninth).shape == (24, 32, 3)

    @pytest.mark.parametrize("name", cub.LISTS)
    def test_lists_from_other_systems(self, name, root):
        text = (root / name).read_bytes().replace(b"\n", b"\r\n")
        (root / name).write_bytes(b"\xef\xbb\xbf\r\n" + text + b"\r\n\r\n")
        assert self.open(root).items("test") == sorted(self.truth["test"])
        assert self.open(root).classes[2] == "010.Red_winged_Blackbird"

    @pytest.mark.parametrize("name", cub.LISTS)
    def test_a_number_twice(self, name, root):
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(text + text.splitlines(True)[0], encoding="utf-8")
        assert "listed a second time, first in line 1" in refusal(root, kind=cub)

    @pytest.mark.parametrize("name", cub.LISTS)
    def test_a_missing_list(self, name, root):
        (root / name).unlink()
        message = refusal(root, kind=cub)
        assert str(root / name) in message
        assert cub.LAYOUT in message

    @pytest.mark.parametrize("name", ["image_class_labels.txt", "train_test_split.txt"])
    def test_a_missing_line(self, name, root):
        lines = (root / name).read_text(encoding="utf-8").splitlines(True)
        (root / name).write_text("".join(lines[:-1]), encoding="utf-8")
        assert f"{name} has no line for image 12" in refusal(root, kind=cub)

    def test_one_image_under_two_numbers(self, root):
        text = (root / "images.txt").read_text(encoding="utf-8")
        first, second = (line.split()[1] for line in text.splitlines()[:2])
        (root / "images.txt").write_text(text.replace(second, first), encoding="utf-8")
        assert f"images/{first} twice" in refusal(root, kind=cub)

    def test_odd_classes_and_splits(self, root):
        path = root / "train_test_split.txt"
        path.write_text(path.read_text(encoding="utf-8").replace("5 0", "5 2"), encoding="utf-8")
        assert "image 5" in refusal(root, kind=cub)
