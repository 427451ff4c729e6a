"""The report: one file without a network, in which no name is ever markup, and whose numbers are those of the tags."""

from __future__ import annotations

import base64
import builtins
import dataclasses
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tiny_report import CLASS, HOSTILE, ITEM, TAGS, TEX, reported

from benchkit.boards import boards_of
from benchkit.commands import report as command
from benchkit.eval import evaluate
from benchkit.experiments.experiment import Experiment
from benchkit.provenance.record import describe_file, read_record, sealed
from benchkit.report import embed, numbers
from benchkit.report.chosen import chosen_items
from benchkit.report.costs import costs_of
from benchkit.report.items import items_of
from benchkit.report.making import Wishes, report_text, write_report
from benchkit.report.markup import Markup, element, joined, picture
from benchkit.report.records import path_cut, without_paths
from benchkit.report.thumbs import Thumbs
from benchkit.store.content import file_hash
from benchkit.store.files import write_json
from benchkit.store.outputs import Outputs
from benchkit.store.table import Table, write_table

VOID = {"meta", "img", "input", "br", "line", "circle"}


class Page(HTMLParser):
    """What a browser would make of a page: elements with attributes, text, and the blocks of data by id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.data: dict[str, str] = {}
        self.open: list[str] = []
        self._block = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        self._block = str(found.get("id", "")) if found.get("type") == "application/json" else ""
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
        self._block = ""

    def handle_data(self, data: str) -> None:
        if self._block:
            self.data[self._block] = self.data.get(self._block, "") + data
        elif not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def read(self, name: str) -> Any:
        return json.loads(self.data[f"data-{name}"])


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return reported(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def text(outputs: Outputs) -> str:
    return report_text(boards_of(outputs), Wishes(pictures=2))


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def scores_of(items: Mapping[str, Any]) -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(items["scores"]), "<f4")
    return flat.reshape(len(items["columns"]), len(items["tags"]), len(items["items"]))


class TestTheFile:
    def test_it_is_whole_html(self, text: str, page: Page):
        assert text.startswith("<!DOCTYPE html>")
        assert page.open == []
        assert len({found["id"] for _, found in page.elements if "id" in found}) == sum(
            "id" in found for _, found in page.elements
        )

    def test_nothing_in_it_is_loaded_from_elsewhere(self, page: Page):
        loads = [found.get(key) for _, found in page.elements for key in ("src", "href", "srcset", "data", "action")]
        assert all(each is None or each.startswith(("data:image/", "#")) for each in loads)
        assert not {"link", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.elements}

    def test_its_policy_runs_two_scripts_only_and_loads_nothing(self, text: str, page: Page):
        policy = next(str(found["content"]) for _, found in page.elements if found.get("http-equiv"))
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        assert re.findall(r"script-src ([^;]*)", policy)[0].count("'sha256-") == 2
        assert "'unsafe-inline'" not in re.findall(r"script-src ([^;]*)", policy)[0]
        scripts = [found for tag, found in page.elements if tag == "script" and "type" not in found]
        assert len(scripts) == 2

    def test_its_parts_come_in_order(self, page: Page):
        said = [each for each in page.texts if each.strip()]
        names = [
            "Boards",
            "All benchmarks by tag",
            "Score against cost",
            "Benchmarks",
            "Differences",
            "Curves and plots",
        ]
        places = [said.index(name) for name in names]
        assert places == sorted(places)

    def test_equal_tags_give_equal_bytes(self, outputs: Outputs, text: str):
        assert report_text(boards_of(outputs), Wishes(pictures=2)) == text

    def test_the_command_says_where_and_how_large_it_is(self, outputs: Outputs, tmp_path: Path, capsys: Any):
        path = tmp_path / "sub" / "r.html"
        argv = ["retrieval", "--outputs", str(outputs.root), "--pictures", "0", "-o", str(path)]
        assert command.main(argv) == 0
        assert f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)" in capsys.readouterr().out
        assert list(path.parent.iterdir()) == [path]


class TestItsNumbers:
    def test_scores_are_those_of_the_tags(self, outputs: Outputs, page: Page):
        items = page.read("items-0")
        scores = scores_of(items)
        for row, tag in enumerate(items["tags"]):
            own = Experiment(outputs.root / "results" / "classification" / tag)
            for place, column in enumerate(items["columns"]):
                places = [items["items"].index(name) for name in own.names]
                np.testing.assert_array_equal(
                    scores[place, row, places], own.item_scores[column["name"]].astype(np.float32)
                )

    def test_the_column_that_orders_items_is_first(self, page: Page):
        columns = page.read("items-0")["columns"]
        assert (columns[0]["name"], columns[0]["better"]) == ("top1", "higher")

    def test_every_item_has_its_thumbnail(self, page: Page):
        items, thumbs = page.read("items-0"), page.read("thumbs")
        assert all(len(places) == 1 for places in items["thumbs"])
        assert all(each.startswith("data:image/jpeg;base64,") for each in thumbs)
        assert len(thumbs) == len(items["items"])  # retrieval's are the same pictures

    def test_pictures_are_of_as_many_items_as_asked_for(self, page: Page):
        pictures = page.read("pictures-0")
        assert len(pictures) == 2
        assert [len(each["own"]) for each in pictures.values()] == [len(TAGS)] * 2

    def test_boards_show_values_intervals_and_floors(self, outputs: Outputs, page: Page):
        board = boards_of(outputs, ["classification"])[0]
        for row in board.rows:
            for number in (row.value, row.floor):
                assert numbers.score(number) in page.texts
            assert numbers.interval(row.low, row.high) in page.texts

    def test_a_baseline_can_be_chosen(self, outputs: Outputs):
        shown = Page(report_text(boards_of(outputs, ["classification"]), Wishes(baseline=TEX, pictures=0)))
        place = shown.texts.index("Score minus that of ")
        assert shown.texts[place + 1] == TEX

    def test_flips_that_are_asked_for_come_first(self, outputs: Outputs):
        shown = Page(report_text(boards_of(outputs, ["classification"]), Wishes(flips=(TEX, "plain"), pictures=0)))
        items = shown.read("items-0")
        assert [items["tags"][place] for place in items["flips"]] == [TEX, "plain"]


class TestNames:
    @pytest.mark.parametrize("name", [HOSTILE, CLASS, ITEM])
    def test_a_name_that_is_markup_is_text_alone(self, text: str, page: Page, name: str):
        assert name not in text
        assert not [found for _, found in page.elements if "onerror" in found or "onclick" in found]

    def test_names_are_read_back_as_they_are(self, page: Page):
        items = page.read("items-0")
        assert set(items["tags"]) == set(TAGS)
        assert f"{CLASS}/{ITEM}.png" in "".join(items["items"])
        assert CLASS in items["categories"][0]["labels"]
        assert HOSTILE in page.texts

    def test_json_cannot_end_its_element(self):
        text = "</script><!--&\u2028\u2029"
        block = embed.json_block("x", [text])
        assert not set("<>&\u2028\u2029") & set(embed.escaped_json([text]))
        assert json.loads(Page(block).data["x"]) == [text]

    def test_numbers_that_json_has_not_are_refused(self):
        with pytest.raises(ValueError, match="JSON"):
            embed.escaped_json(float("nan"))

    def test_children_and_attributes_are_escaped_unless_made_here(self):
        assert element("b", "<i>", title='"&') == '<b title="&quot;&amp;">&lt;i&gt;</b>'
        assert element("b", element("i", "x"), None, hidden=True, id=None) == "<b hidden><i>x</i></b>"
        assert joined("<", Markup("<hr>")) == "&lt;<hr>"
        assert picture("data:x", '"') == '<img src="data:x" alt="&quot;" decoding="async">'

    def test_zero_is_a_value_of_an_attribute(self):
        assert element("b", data_section=0) == '<b data-section="0"></b>'


class TestItems:
    class Two:
        """Two experiments, the second without the item b."""

        tags, names, columns = ("one", "two"), ["a", "b"], ["loss", "hit"]
        has = np.array([[True, True], [True, False]])
        categories = {"class": ["x", ""]}  # noqa: RUF012
        experiments = ()

        def scores(self, column: str) -> np.ndarray:
            return np.array([[0.5, np.nan], [0.25, np.nan]]) + (column == "hit")

    def test_what_is_missing_and_what_is_undefined_differ(self):
        made = items_of(self.Two(), ("hit", "higher"))  # type: ignore[arg-type]
        assert list(base64.b64decode(made["present"])) == [1, 1, 1, 0]
        assert [each["name"] for each in made["columns"]] == ["hit", "loss"]
        np.testing.assert_array_equal(scores_of(made)[:, :, 0], [[1.5, 1.25], [0.5, 0.25]])
        assert np.isnan(scores_of(made)[:, :, 1]).all()
        assert made["categories"][0]["labels"] == ["", "x"]
        assert list(np.frombuffer(base64.b64decode(made["categories"][0]["codes"]), "<i4")) == [1, 0]

    def test_worst_best_and_flips_take_turns(self):
        scores = np.array([[0.0, 0.9, 0.5, 0.1, 0.8], [0.1, 1.0, 0.5, 0.9, 0.2]])
        assert chosen_items(scores, "higher", 4) == [0, 1, 4, 3]  # worst, best, the first better, the second better
        assert chosen_items(scores, "lower", 2) == [1, 0]

    def test_items_without_a_score_come_last(self):
        scores = np.array([[np.nan, 0.5, 0.7]])
        assert chosen_items(scores, "higher", 3) == [1, 2, 0]
        assert chosen_items(np.full((2, 3), np.nan), "higher", 2) == [0, 1]

    def test_equal_scores_are_no_flip(self):
        assert chosen_items(np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5]]), "higher", 2) == [2, 0]


class TestSizes:
    def test_thumbnails_shrink_until_all_of_them_fit(self, monkeypatch: pytest.MonkeyPatch):
        rng = np.random.default_rng(0)
        thumbs = Thumbs()
        for _ in range(3):
            thumbs.add(embed.webp(rng.integers(0, 255, (96, 96, 3), np.uint8), quality=90))
        before = sum(map(len, thumbs.addresses()))
        monkeypatch.setattr("benchkit.report.thumbs.ALL", 6000)
        assert sum(map(len, thumbs.addresses())) < min(before, 1.5 * 6000)

    def test_a_picture_is_kept_once(self):
        thumbs = Thumbs()
        encoded = embed.webp(np.zeros((8, 8, 3), np.uint8))
        assert [thumbs.add(encoded), thumbs.add(encoded)] == [0, 0]
        assert len(thumbs.addresses()) == 1

    def test_pictures_end_where_the_room_does(self, outputs: Outputs, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("benchkit.report.making.ROOM", 0)
        monkeypatch.setattr("benchkit.report.making.LEAST", 150_000)
        shown = Page(report_text(boards_of(outputs, ["retrieval"]), Wishes()))
        assert 0 < len(shown.read("pictures-0")) < len(shown.read("items-0")["items"])
        assert len(json.dumps(shown.read("pictures-0"))) < 160_000


class TestPaths:
    @pytest.mark.parametrize(
        ("text", "cut"),
        [
            ("/home/me/my photos", "my photos"),
            ("C:\\data\\photos", "photos"),
            ("~/photos", "photos"),
            ("../photos", "photos"),
            ("benchkit run --conf x data.root=/home/me/photos", "benchkit run --conf x data.root=photos"),
            ("/home/me/results.h5 is damaged: run eval again.", "results.h5 is damaged: run eval again."),
            ("facebook/dinov2", "facebook/dinov2"),
            ("https://example.org/a/b", "https://example.org/a/b"),
            ("1/2", "1/2"),
            ("", ""),
        ],
    )
    def test_paths_of_a_machine_are_cut(self, text: str, cut: str):
        assert path_cut(text) == cut

    def test_everything_in_a_record_is_looked_through(self):
        assert without_paths({"a": ["/x/y", 1, {"b": "/z"}]}) == {"a": ["y", 1, {"b": "z"}]}

    def test_the_flag_leaves_none_in_the_page(self, outputs: Outputs):
        boards = boards_of(outputs, ["retrieval"])
        shown = report_text(boards, Wishes(pictures=0, no_paths=True))
        assert str(outputs.root.parent) in report_text(boards, Wishes(pictures=0))
        assert str(outputs.root.parent) not in shown
        assert "root: photos" in shown


class TestNumbers:
    def test_they_are_shown_for_people(self):
        assert numbers.score(None) == "n/a"
        assert numbers.score(0.5) == "0.5000"
        assert numbers.score(-123.456) == "\N{MINUS SIGN}123.5"
        assert numbers.signed(-0.25) == "\N{MINUS SIGN}0.2500"
        assert numbers.signed(0.25) == "+0.2500"
        assert numbers.interval(None, 1.0) == ""
        assert numbers.score(-0.00001) == "0.0000"
        assert numbers.signed(-0.00001) == numbers.signed(0.0) == "0.0000"
        assert numbers.interval(-0.274, -0.1762) == "\N{MINUS SIGN}0.2740 to \N{MINUS SIGN}0.1762"


class TestCosts:
    def test_one_in_which_no_two_tags_differ_is_left_out(self, outputs: Outputs):
        (board,) = boards_of(outputs, ["classification"])
        same = [dataclasses.replace(row, params=0, bytes_per_item=9, images_per_s=10.0) for row in board.rows]
        other = dataclasses.replace(same[0], images_per_s=20.0)
        rows = [other, *same[1:]]
        made = costs_of(dataclasses.replace(board, rows=tuple(rows)))
        assert [each["name"].split(",")[0] for each in made["costs"]] == ["images/s"]
        assert "one machine" in made["costs"][0]["told"]
        assert costs_of(dataclasses.replace(board, rows=tuple(same)))["costs"] == []


class TestRefusals:
    def ends(self, argv: list[str], capsys: Any) -> str:
        assert command.main(argv) == 2
        return str(capsys.readouterr().err)

    def test_without_bokeh_the_extra_is_named(self, outputs: Outputs, monkeypatch: pytest.MonkeyPatch, capsys: Any):
        real = builtins.__import__

        def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
            if name.split(".")[0] == "bokeh":
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)
        assert "pip install 'benchkit[report]'" in self.ends(["--outputs", str(outputs.root)], capsys)

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["clasification"], "classification"),
            (["depth"], "depth"),
            (["--tag", "nothing*"], "nothing*"),
            (["--flips", "plain", "plane"], "plain"),
            (["--baseline", "plane"], "plain"),
            (["--pictures", "101"], "0 to 100"),
            (["-o", "report.txt"], ".html"),
        ],
    )
    def test_what_does_not_exist_is_named(self, outputs: Outputs, argv: list[str], said: str, capsys: Any):
        assert said in self.ends([*argv, "--outputs", str(outputs.root)], capsys)

    def test_a_tag_that_cannot_be_read_is_said_in_the_page(self, outputs: Outputs, tmp_path: Path, capsys: Any):

        shutil.copytree(outputs.root / "results" / "retrieval", tmp_path / "results" / "retrieval")
        broken = shutil.copytree(
            tmp_path / "results" / "retrieval" / "plain", tmp_path / "results" / "retrieval" / "torn"
        )
        (broken / "results.h5").unlink()
        path = tmp_path / "r.html"
        assert command.main(["--outputs", str(tmp_path), "--pictures", "0", "-o", str(path)]) == 3
        assert "results.h5 is not the file" in capsys.readouterr().err
        texts = Page(path.read_text(encoding="utf-8")).texts
        assert texts[texts.index("torn") + 1].startswith(": results.h5 is not the file")


class TestDamagedTags:
    """Tags of which a file cannot be read are named, and the page has everything else."""

    @pytest.fixture
    def copy(self, outputs: Outputs, tmp_path: Path) -> Path:
        """A folder of three good tags of classification."""
        folder = tmp_path / "outputs" / "results" / "classification"
        shutil.copytree(outputs.root / "results" / "classification", folder)
        return folder

    def made(self, folder: Path, status: int) -> Page:
        path = folder.parents[2] / "r.html"
        assert command.main(["--outputs", str(folder.parents[1]), "--pictures", "2", "-o", str(path)]) == status
        return Page(path.read_text(encoding="utf-8"))

    def test_one_without_its_truth_keeps_its_scores_and_loses_its_pictures(self, copy: Path, capsys: Any):
        (copy / "plain" / "targets.h5").unlink()
        shown = self.made(copy, 3)
        assert capsys.readouterr().err.count("plain/targets.h5 is missing") == 1
        assert shown.texts[
            shown.texts.index("plain", shown.texts.index("Not all of these could be read:")) + 1
        ].endswith("targets.h5 is missing. Export again to make it")
        place = shown.read("items-0")["tags"].index("plain")
        assert [len(each["own"][place]) for each in shown.read("pictures-0").values()] == [0, 0]
        assert all(shown.read("items-0")["thumbs"])  # those of the other tags

    def test_one_with_torn_thumbnails_is_named(self, copy: Path, capsys: Any):
        torn = copy / TEX / "thumbs.h5"
        data = torn.read_bytes()
        torn.unlink()
        torn.write_bytes(data[: len(data) // 2])
        assert "Not all of these could be read:" in self.made(copy, 3).texts
        assert "thumbs.h5 is damaged" in capsys.readouterr().err

    def test_a_name_that_is_no_utf_8_is_escaped(self, copy: Path, capsys: Any):
        odd = os.fsdecode(b"bad\xff")
        (copy / "plain").rename(copy / odd)
        shown = self.made(copy, 0)
        assert "bad\\udcff" in shown.read("items-0")["tags"]
        assert "bad\\udcff" in shown.texts
        assert "bad\\udcff" in shown.read("looks")


@pytest.mark.long
class TestThirteenTags:
    """A report of the size that is promised: 13 tags of 1,449 items, with thumbnails of 4 KB."""

    TAGS, ITEMS = 13, 1449

    @pytest.fixture
    def many(self, outputs: Outputs, tmp_path: Path) -> Outputs:
        where = Outputs(tmp_path)
        source = outputs.tag("classification", "plain")
        names = [f"test/{number % 37:02d}/{number:04d}.jpg" for number in range(self.ITEMS)]
        for tag in range(self.TAGS):
            self.make(source, where.tag("classification", f"model{tag:02d}"), names, tag)
        return where

    def make(self, source: Path, folder: Path, names: list[str], seed: int) -> None:
        """A tag of random answers, scored."""
        rng = np.random.default_rng(seed)
        shutil.copytree(source, folder)
        labels = np.arange(len(names)) % 3
        for path in folder.glob("*.h5"):
            path.unlink()
        with Table(source / "targets.h5", "targets") as table:
            meta = table.meta
        fixed = np.random.default_rng(0)
        thumbs = [np.frombuffer(self.jpeg(fixed), np.uint8) for _ in names]
        scores = rng.normal(size=(len(names), 3)).astype(np.float32)
        scores[np.arange(len(names)), labels] += seed / 6
        columns = {"label": labels, "views": names, "group": [""] * len(names)}
        write_table(folder / "targets.h5", "targets", names, columns, meta=meta)
        write_table(folder / "predictions.h5", "predictions", names, {"scores": scores}, meta={"scores_are": "logits"})
        write_table(folder / "thumbs.h5", "thumbs", names, {"thumb": thumbs})
        record = read_record(folder)
        assert record is not None
        files = {path.name: describe_file(path, file_hash(path)) for path in sorted(folder.glob("*.h5"))}
        data = {**record["data"], "targets": files["targets.h5"]["content"], "n_items": len(names)}
        write_json(folder / "record.json", sealed({**record, "files": files, "data": data, "scores": None}))
        evaluate("classification", folder.name, outputs=folder.parents[2])

    def jpeg(self, rng: np.random.Generator) -> bytes:
        """A picture of some 4 KB."""
        buffer = io.BytesIO()
        picture = rng.integers(0, 255, (16, 16, 3), np.uint8)
        Image.fromarray(picture).resize((96, 96), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=93)
        return buffer.getvalue()

    @pytest.mark.slow
    def test_it_stays_below_15_mb(self, many: Outputs, tmp_path: Path):
        path = tmp_path / "r.html"
        assert write_report(path, many) < 15_000_000
        shown = Page(path.read_text(encoding="utf-8"))
        items = shown.read("items-0")
        assert scores_of(items).shape[1:] == (self.TAGS, self.ITEMS)
        assert all(items["thumbs"])
        assert 5 <= len(shown.read("pictures-0")) <= 100
