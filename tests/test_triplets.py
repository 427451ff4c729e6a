"""Triplets: the list of NIGHTS with everything that can be wrong in it, splits and votes, and the generated ones."""

import csv
import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

import benchkit
from benchkit import registry
from benchkit.datasets import scene_triplets, triplets
from benchkit.errors import UsageError
from benchkit.export.split import Split, limited
from benchkit.render.scene import make_scene
from benchkit.render.variation import CHANGES, relit, varied

HEADER = [
    "id",
    "left_vote",
    "right_vote",
    "votes",
    "ref_path",
    "left_path",
    "right_path",
    "prompt",
    "split",
    "is_imagenet",
]


def line(name, *, left=0, right=1, votes=6, split="test", imagenet="True", prompt="An image of a cat, asleep"):
    paths = [
        f"{part}/000/{int(name):03d}{end}.png" for part, end in (("ref", ""), ("distort", "_0"), ("distort", "_1"))
    ]
    return [name, left, right, votes, *paths, prompt, split, imagenet]


def write(root, *lines, header=HEADER):
    """root/data.csv as a spreadsheet writes it: cells with commas are quoted, lines end as on Windows."""
    root.mkdir(exist_ok=True)
    with (root / "data.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([header, *lines])
    return root


def colour(root, *names):
    """Images of the triplets, each of one colour; all differ."""
    for number, name in enumerate(names):
        for place, path in enumerate(line(name)[4:7]):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shade = np.full((16, 16, 3), (80 * place, number, 50), np.uint8)
            Image.fromarray(shade).save(root / path)


def read(root, **settings):
    return triplets.Triplets(triplets.Settings(root=str(root), **settings))


@pytest.fixture
def nights(tmp_path):
    return write(
        tmp_path / "nights",
        line("1"),
        line("2", left=1, right=0, imagenet="False"),
        line("3", votes=5),
        line("4", split="val"),
        line("5", split="train", imagenet="FALSE"),
        line("10", right=1.0, imagenet="true"),
    )


class TestSplits:
    @pytest.mark.parametrize(
        ("split", "ids"),
        [
            ("test", ["1", "10", "2"]),
            ("test_imagenet", ["1", "10"]),
            ("test_no_imagenet", ["2"]),
            ("val", ["4"]),
            ("train", ["5"]),
            ("train_no_imagenet", ["5"]),
        ],
    )
    def test_names_and_order(self, nights, split, ids):
        assert read(nights).items(split) == [f"{split.partition('_')[0]}/{i}" for i in ids]

    def test_an_unknown_split_names_those_there_are(self, nights):
        with pytest.raises(UsageError, match=r"'dev'.*test, test_imagenet, test_no_imagenet, train.*data\.split=NAME"):
            read(nights).items("dev")

    def test_few_votes_are_left_out_and_said(self, nights):
        assert "test/3" not in read(nights).items("test")
        assert read(nights, min_votes=5).items("test") == ["test/1", "test/10", "test/2", "test/3"]
        assert read(nights).notes() == [
            f"{nights / 'data.csv'}: of 6 triplets 1 have fewer than 6 votes (data.min_votes): left out."
        ]
        assert read(nights, min_votes=1).notes() == []

    def test_nothing_left(self, nights):
        with pytest.raises(UsageError, match="nothing is left"):
            read(nights, min_votes=7).items("test")


class TestTriplet:
    def test_target_views_and_categories(self, nights):
        data = read(nights)
        assert data.views("test/2") == ("ref/000/002.png", "distort/000/002_0.png", "distort/000/002_1.png")
        assert data.path("ref/000/002.png") == nights / "ref/000/002.png"
        assert [int(data.target(f"test/{i}")["vote"]) for i in (1, 2, 10)] == [1, 0, 1]
        assert [data.category(f"test/{i}")["imagenet"] for i in (1, 2, 10)] == ["yes", "no", "yes"]
        assert data.meta() == {"kinds": ["imagenet", "no_imagenet"]}
        assert [data.meta()["kinds"][data.target(f"test/{i}")["kind"]] for i in (1, 2)] == ["imagenet", "no_imagenet"]
        assert data.group("test/1") == ""
        assert data.label("test/1") is None

    def test_another_vote_is_another_data_set(self, tmp_path):
        facts = {view: dataclasses.make_dataclass("F", ["sha256"])("0") for view in line("1")[4:7]}
        ids = set()
        for number, changed in enumerate(({}, {"left": 1, "right": 0}, {"imagenet": "False"}, {"prompt": "a dog"})):
            data = read(write(tmp_path / str(number), line("1", **changed)))
            ids.add(Split(data, "test", ["test/1"], facts).id)
        assert len(ids) == 3

    def test_counts_are_votes_and_even_ones_are_left_out(self, tmp_path):
        root = write(
            tmp_path / "own", line("1", left=3, right=4), line("2", left=5, right=5), line("3", left=9, right=1)
        )
        data = read(root)
        assert data.items("test") == ["test/1", "test/3"]
        assert [int(data.target(i)["vote"]) for i in data.items("test")] == [1, 0]
        assert "1 have as many votes for the left as for the right" in data.notes()[0]

    def test_your_own_list_needs_seven_columns_less_three(self, tmp_path):
        rows = [["a b", "x/r.png", r"x\l.png", "./x//q.png", 0, 3], ["c", "r.png", "l.png", "q.png", 2, 1]]
        root = write(tmp_path / "own", *rows, header=["id", *triplets.PATHS, "left_vote", "right_vote"])
        data = read(root)
        assert data.items("test") == ["test/a b", "test/c"]
        assert data.views("test/a b") == ("x/r.png", "x/l.png", "x/q.png")
        assert data.target("test/c").keys() == {"vote"}
        assert data.category("test/c") == {}
        assert data.meta() == {}


class TestTraps:
    """Whatever an editor does to a list is read over; whatever is wrong is one paragraph with file and line."""

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    @pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    def test_marks_line_ends_blank_lines(self, tmp_path, end, mark, delimiter):
        rows = [HEADER, line("1"), [], ["  "], line("2", split=" val "), [""] * 10]
        text = end.join(delimiter.join(f'"{c}"' if delimiter in str(c) else str(c) for c in row) for row in rows)
        (tmp_path / "data.csv").write_bytes(mark + text.encode() + end.encode() * 3)
        data = read(tmp_path)
        assert (data.items("test"), data.items("val")) == (["test/1"], ["val/2"])

    def test_a_cell_of_several_lines(self, tmp_path):
        root = write(tmp_path / "own", line("1", prompt='two\nlines, "quoted"'), line("2", left="?"))
        with pytest.raises(UsageError, match=r"data\.csv:4: left_vote is a number of votes, not '\?'"):
            read(root).items("test")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"left_vote": "many"}, "left_vote is a number of votes, not 'many'"),
            ({"right_vote": ""}, "right_vote is a number of votes, not ''"),
            ({"right_vote": "nan"}, "right_vote is a number of votes, not 'nan'"),
            ({"votes": "-1"}, "votes is a number of votes, not '-1'"),
            ({"votes": "inf"}, "votes is a number of votes, not 'inf'"),
            ({"is_imagenet": "maybe"}, "is_imagenet is true or false, not 'maybe'"),
            ({"id": "1"}, "'test/1' is listed a second time, first in line 2"),
            ({"id": ""}, "id is empty"),
            ({"split": ""}, "split is empty"),
            ({"ref_path": ""}, "ref_path is a path below root, not ''"),
            ({"left_path": "../elsewhere.png"}, "left_path is a path below root, not '../elsewhere.png'"),
            ({"left_path": "a/../../b.png"}, "left_path is a path below root"),
            ({"left_path": r"..\b.png"}, "left_path is a path below root"),
            ({"right_path": "/etc/passwd"}, "right_path is a path below root, not '/etc/passwd'"),
        ],
    )
    def test_a_wrong_line_is_named(self, tmp_path, change, message):
        wrong = [change.get(name, value) for name, value in zip(HEADER, line("2"), strict=True)]
        with pytest.raises(UsageError) as caught:
            read(write(tmp_path / "own", line("1"), wrong, line("3"))).items("test")
        assert message in str(caught.value)
        assert f"{tmp_path / 'own' / 'data.csv'}:3: " in str(caught.value)

    def test_a_control_character_in_a_name(self, tmp_path):
        with pytest.raises(UsageError, match="control character"):
            read(write(tmp_path / "own", line("1", split="te\nst"))).items("test")

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            (["id,ref_path,left_path,right_path,left_vote", "1,a,b,c,1"], r":1: the header has no column 'right_vote'"),
            ([",".join([*HEADER, "id"])], r":1: the header has the column 'id' twice"),
            ([",".join(HEADER), "1,0,1,6,a,b,c,p,test"], r":2: 9 cells where the header names 10 columns"),
            ([",".join(HEADER), "1,0,1,6,a,b,c,a, cat,test,True"], r":2: 11 cells where the header"),
            ([",".join(HEADER), '1,0,1,6,a,b,c,"open,test,True'], "unexpected end of data"),
            (["", "  "], "is empty: a line that names the columns is due"),
        ],
    )
    def test_a_wrong_table(self, tmp_path, lines, message):
        (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
        with pytest.raises(UsageError, match=message):
            read(tmp_path).items("test")

    def test_another_encoding(self, tmp_path):
        (tmp_path / "data.csv").write_bytes(",".join(HEADER).encode() + "\n1,0,1,6,r\xe9f.png".encode("latin-1"))
        with pytest.raises(UsageError, match=r"data\.csv is not UTF-8 \(byte"):
            read(tmp_path).items("test")

    def test_missing_images_are_named_before_the_first_forward(self, tmp_path):
        root = write(tmp_path / "own", line("1"), line("2", left=1, right=0))
        colour(root, "1", "2")
        (root / "distort/000/002_1.png").unlink()
        with pytest.raises(UsageError, match=r"1 item cannot be used.*distort/000/002_1\.png"):
            run("color_histogram", root, tmp_path)
        assert not (tmp_path / "outputs" / "features").exists()
        end = run("color_histogram", root, tmp_path, "data.on_error=skip")
        assert end.items["names"] == ["test/1"]
        assert list(end.record["data"]["skipped"]) == ["test/2"]


def run(conf, root, folder, *arguments, benchmark="similarity"):
    return benchkit.run(conf, benchmark, data=root, arguments=arguments, outputs=folder / "outputs")


class TestEndToEnd:
    def test_scores_by_hand(self, tmp_path):
        """A histogram sees equal colours as equal: in 1 the left image is the reference's, in 2 the right; 3 is a tie."""
        root = write(
            tmp_path / "own",
            line("1", left=1, right=0),
            line("2", left=1, right=0, imagenet="False"),
            line("3", left=0, right=1, imagenet="False"),
        )
        colour(root, "1", "2", "3")
        ref, left, right = (line(str(i))[4:7] for i in (1, 2, 3))
        (root / ref[1]).write_bytes((root / ref[0]).read_bytes())
        (root / left[2]).write_bytes((root / left[0]).read_bytes())
        (root / right[1]).write_bytes((root / right[2]).read_bytes())
        end = run("color_histogram", root, tmp_path)
        assert end.items["accuracy"].tolist() == [1, 0, 0.5]
        assert end.items["category/imagenet"] == ["yes", "no", "no"]
        found = json.loads((end.folder / "summaries.json").read_text())
        expected = {"accuracy": 0.5, "tie_rate": 1 / 3, "share_right": 1 / 3, "accuracy_imagenet_gap": 0.75}
        expected |= {"precision": 0.5 / 1.5, "recall": 0.5, "f1": 0.4, "floor_accuracy": 0.5, "floor_tie_rate": 1}
        expected |= {"accuracy/imagenet": 1, "accuracy/no_imagenet": 0.25, "n_items": 3}
        assert {name: found[name] for name in expected} == pytest.approx(expected)

    def test_nights_fixes_its_preprocessing(self, tmp_path):
        root = write(tmp_path / "nights", line("1"), line("2", left=1, right=0))
        colour(root, "1", "2")
        end = run("color_histogram", root, tmp_path, benchmark="nights")
        made = end.record["backbone"]["identity"]["preprocess"]
        assert (made["size"], made["resize"], made["interpolation"]) == (224, "squash", "bicubic")
        assert end.record["data"]["overlaps"] == ["imagenet-1k"]

    def test_the_folder_of_a_similarity_benchmark_holds_triplets(self, tmp_path):
        with pytest.raises(UsageError, match=r"holds no file data\.csv\. Expected: root/data\.csv"):
            run("color_histogram", tmp_path, tmp_path)

    def test_pictures_show_all_three_views(self, tmp_path):
        from benchkit.experiments.files import TagFiles
        from benchkit.experiments.pictures import contact_sheet

        root = write(tmp_path / "own", line("1"), line("2", left=1, right=0))
        colour(root, "1", "2")
        Image.fromarray(np.zeros((48, 24, 3), np.uint8)).save(root / "distort/000/001_0.png")
        end = run("color_histogram", root, tmp_path)
        with TagFiles(end.folder) as files:
            prediction, _, image = files.item("test/1")
        assert prediction["embedding"].shape == (3, 512)
        assert image.shape[:2] == (48, 16 + 24 + 16 + 2 * 3)
        assert (image[:16, -16:] == image[0, -1]).all()
        assert (image[20:, :16] == 255).all()
        assert contact_sheet(end.folder, end.record).stat().st_size > 1000


@pytest.mark.data
def test_a_triplet_of_nights(shared, tmp_path):
    """Three images of Stable Diffusion as NIGHTS has them; the vote is made up, so only the answer's sign is looked at."""
    names = ["ref_1.png", "img_a_1.png", "img_b_1.png"]
    for name in names:
        (tmp_path / name).symlink_to(shared / "data" / "2afc" / "nights" / name)
    write(tmp_path, ["1", *names, 0, 1], ["2", names[0], *names[:0:-1], 0, 1], header=triplets.NEEDED)
    end = run("color_histogram", tmp_path, tmp_path)
    assert sum(end.items["accuracy"]) == 1  # turned round, the other answer is right
    assert end.items["tie"].tolist() == [0, 0]
    assert end.record["data"]["n_items"] == 2


SMALL = scene_triplets.Settings(n_train=8, n_test=48, side=48)


@pytest.fixture(scope="module")
def data():
    return scene_triplets.SceneTriplets(SMALL)


class TestGenerated:
    def test_kinds_and_sides_take_turns(self, data):
        targets = [data.target(item) for item in data.items("test")]
        pairs = [(int(t["kind"]), int(t["vote"])) for t in targets]
        assert sorted(set(pairs)) == [(kind, vote) for kind in range(4) for vote in (0, 1)]
        assert {pairs.count(pair) for pair in pairs} == {6}
        assert [data.meta()["kinds"][kind] for kind, _ in pairs[:4]] == [data.label(f"test/{i:06d}") for i in range(4)]
        assert limited(data, data.items("test"), 8) == sorted(limited(data, data.items("test"), 8))
        assert len({data.label(item) for item in limited(data, data.items("test"), 4)}) == 4

    def test_a_seed_and_a_name_fix_every_image(self, data):
        view = "test/000005/left"
        again = scene_triplets.SceneTriplets(SMALL)
        scene_triplets._rendered.cache_clear()
        other = scene_triplets.SceneTriplets(dataclasses.replace(SMALL, seed=1))
        first = data.image(view).copy()
        scene_triplets._rendered.cache_clear()
        assert np.array_equal(again.image(view), first)
        assert (other.image(view) != first).mean() > 0.5
        assert len({data.image(v).tobytes() for v in data.views("test/000005")}) == 3
        assert len({data.recipe(v) for item in data.items("test") for v in data.views(item)}) == 3 * 48

    def test_the_vote_is_the_side_that_changes_less(self, data, monkeypatch):
        """Without other lights, pixels tell: the mean difference to the reference is smaller on the chosen side."""
        monkeypatch.setattr("benchkit.render.variation.relit", lambda scene, name, seed: scene)
        scene_triplets._rendered.cache_clear()
        right = []
        for item in data.items("test"):
            ref, *sides = (data.image(view).astype(int) for view in data.views(item))
            changes = [np.abs(side - ref).mean() for side in sides]
            right.append(np.argmin(changes) == data.target(item)["vote"])
        scene_triplets._rendered.cache_clear()
        assert np.mean(right) > 0.8

    def test_colours_alone_tell_little(self, tmp_path):
        end = benchkit.run("color_histogram", "similarity", outputs=tmp_path, arguments=["data.side=64"])
        assert 0.4 < end.summaries["accuracy"] < 0.75
        assert end.summaries["share_right"] == 0.5
        assert end.record["data"]["generated"]
        assert {f"accuracy/{kind}" for kind in CHANGES} <= end.record["breakdown"].keys()

    @pytest.mark.parametrize("change", CHANGES)
    def test_a_stronger_change_goes_further(self, change):
        """Equal names change in one direction."""
        scene = make_scene("here", 0, 4)
        little, much = (varied(scene, change, strength, "x", 0) for strength in (0.2, 0.9))
        assert np.array_equal(_place(little), _place(varied(scene, change, 0.2, "x", 0)))
        near, far = (_distance(scene, other) for other in (little, much))
        assert 0 < near < far
        assert little.light is scene.light

    def test_relit_changes_the_light_alone(self):
        scene = make_scene("here", 0, 4)
        lit = relit(scene, "x", 0)
        assert (lit.objects, lit.camera, lit.room) == (scene.objects, scene.camera, scene.room)
        assert np.linalg.norm(lit.light.toward) == pytest.approx(1)
        flat = [light.toward[:2] / np.linalg.norm(light.toward[:2]) for light in (scene.light, lit.light)]
        assert np.radians(36) <= np.arccos(flat[0] @ flat[1]) <= np.radians(90)

    def test_registered(self):
        assert {"triplets", "scene_triplets"} <= set(registry.names("datasets"))


def _place(scene):
    return np.concatenate([np.ravel(scene.camera.pose), *(_about(thing) for thing in scene.objects)])


def _about(thing):
    return np.concatenate([thing.solid.center, np.ravel(thing.solid.rotation), thing.solid.half])


def _distance(scene, other):
    """How far camera and objects are from where they were; an object that was replaced counts 10."""
    replaced = sum(a.name != b.name for a, b in zip(scene.objects, other.objects, strict=True))
    return 10 * replaced + np.linalg.norm(_place(scene) - _place(other))
