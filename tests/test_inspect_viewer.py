"""The inspector's viewer, driven by matplotlib's own events on canvases in memory; scores are given by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text
from tiny_inspector import NAMES, Hand, Made

from benchkit.experiments.joined import Joined
from benchkit.inspect.axis import axis_of, category_means
from benchkit.inspect.frames import columns
from benchkit.inspect.keys import KEYS, named
from benchkit.inspect.order import found_by, ordered
from benchkit.inspect.view import View, first_view, read_view

NAN = float("nan")
EVIL = "<img onerror=alert(1)> $x_1$"
ROOMS = {"room": ["hall", "hall", "attic", "attic"]}


@pytest.fixture(autouse=True)
def _no_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchkit.experiments.draw.Images.of", lambda self, experiment: None)


@pytest.fixture
def pair(tmp_path: Path) -> list[Made]:
    """Errors 1 2 3 4 and 3 1 nan 8: differences 2 -1 nan 4."""
    return [
        Made("first", {"hit": [1, 0, 1, 0], "error": [1, 2, 3, 4]}, categories=ROOMS, root=tmp_path),
        Made("second", {"hit": [0, 1, 1, 0], "error": [3, 1, NAN, 8]}, categories=ROOMS, root=tmp_path),
    ]


@pytest.fixture
def hand(pair: list[Made]) -> Hand:
    return Hand(pair, {"x": "item", "y": "error"})


class TestAlignment:
    def test_items_are_matched_by_name_whatever_their_order(self):
        first, other = Made("a", {"hit": [1, 2]}, ["p", "q"]), Made("b", {"hit": [3, 4]}, ["q", "r"])
        joined = Joined([first, other])
        assert joined.names == ["p", "q", "r"]
        np.testing.assert_array_equal(joined.scores("hit"), [[1, 2, NAN], [NAN, 3, 4]])
        np.testing.assert_array_equal(joined.has, [[1, 1, 0], [0, 1, 1]])

    def test_a_score_that_one_lacks_is_undefined_there(self):
        joined = Joined([Made("a", {"hit": [1]}, ["p"]), Made("b", {"error": [2]}, ["p"])])
        assert joined.columns == ["hit", "error"]
        np.testing.assert_array_equal(joined.scores("error"), [[NAN], [2]])

    def test_two_experiments_of_one_tag_are_told_apart(self):
        assert Joined([Made("a", {"hit": [1]}, ["p"]), Made("a", {"hit": [1]}, ["p"])]).tags == ["a", "a (2)"]

    def test_a_category_that_is_the_same_everywhere_is_no_axis(self):
        made = Made("a", {"hit": [1, 2]}, ["p", "q"], {"room": ["x", "x"], "kind": ["u", "v"]})
        assert list(Joined([made]).categories) == ["kind"]


class TestAxes:
    def test_differences_are_to_the_first_experiment(self, pair: list[Made]):
        joined = Joined(pair)
        axis = axis_of(joined, "error", View("item", "error", diff_only=True), range(4))
        np.testing.assert_array_equal(axis.values, [[0, 0, 0, 0], [2, -1, NAN, 4]])
        assert axis.label == "error (px) minus that of first, lower is better"

    def test_an_error_without_a_metric_has_the_familys_unit_and_the_direction_of_its_order(self, monkeypatch):
        made = Made("a", {"off_ours": [1], "off_theirs": [2], "count": [3]}, ["p"])
        monkeypatch.setattr(type(made.family), "order", lambda self, columns: ("off_ours", "lower"))
        monkeypatch.setattr(type(made.family), "unit", "deg")
        labels = [axis_of(Joined([made]), name, View("item", name), range(1)).label for name in made.item_scores]
        assert labels == ["off_ours (deg), lower is better", "off_theirs (deg), lower is better", "count"]

    def test_means_of_a_category_leave_out_what_is_undefined(self, pair: list[Made]):
        joined = Joined(pair)
        rooms = axis_of(joined, "room", View("room", "error"), range(4))
        assert rooms.ticks == ["attic", "hall"]
        means = category_means(rooms, joined.scores("error"))
        np.testing.assert_array_equal(means, [[3.5, 1.5], [8, 2]])

    def test_a_label_without_a_defined_value_has_no_mean(self):
        joined = Joined([Made("a", {"hit": [1, NAN]}, ["p", "q"], {"room": ["x", "y"]})])
        rooms = axis_of(joined, "room", View("room", "hit"), range(2))
        np.testing.assert_array_equal(category_means(rooms, joined.scores("hit")), [[1, NAN]])

    def test_points_of_a_category_stay_by_its_label_and_come_back_to_the_same_place(self, pair: list[Made]):
        first, again = (axis_of(Joined(pair), "room", View("room", "error"), range(4)).values for _ in range(2))
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(np.round(first), [[1, 1, 0, 0]] * 2)
        assert (first[0] < first[1]).all()  # experiments stand beside each other

    def test_items_stand_in_their_order(self, pair: list[Made]):
        joined, view = Joined(pair), View("item", "error", order="difference")
        axis = axis_of(joined, "item", view, ordered(joined, view))
        np.testing.assert_array_equal(np.round(axis.values[0]), [1, 0, 3, 2])

    def test_by_itself_a_category_is_shown_where_there_is_one(self, pair: list[Made]):
        assert (first_view(Joined(pair)).x, first_view(Joined(pair)).y) == ("room", "hit")
        assert first_view(Joined([Made("a", {"hit": [1, 2, 3, 4]})])).x == "item"


class TestOrder:
    @pytest.mark.parametrize(
        ("order", "expected"),
        [
            ("name", ["a/0", "a/1", "b/0", "b/1"]),
            ("score", ["a/0", "a/1", "b/0", "b/1"]),
            ("difference", ["a/1", "a/0", "b/1", "b/0"]),
            ("spread", ["b/1", "a/0", "a/1", "b/0"]),
        ],
    )
    def test_what_has_no_number_comes_last(self, pair: list[Made], order: str, expected: list[str]):
        joined = Joined(pair)
        assert [NAMES[row] for row in ordered(joined, View("item", "error", order=order))] == expected

    def test_by_the_place_on_the_x_axis(self, pair: list[Made]):
        joined = Joined(pair)
        assert ordered(joined, View("room", "error", order="x")) == [2, 3, 0, 1]
        assert ordered(joined, View("hit", "error", order="x")) == [1, 3, 0, 2]

    def test_hidden_experiments_order_nothing(self, pair: list[Made]):
        third = Made("third", {"error": [0, 0, 0, 0]})
        view = View("item", "error", order="difference", hidden={"second"})
        assert ordered(Joined([*pair, third]), view) == [3, 2, 1, 0]

    def test_a_search_finds_parts_of_names_in_any_case(self):
        joined = Joined([Made("a", {"hit": [1, 2, 3]}, ["Hall/1", "hall/2", "attic/1"])])
        assert found_by(joined, "HALL") == ["Hall/1", "hall/2"]
        assert found_by(joined, "hall/2") == ["hall/2"]
        assert found_by(joined, "") == []


class TestScatter:
    def test_it_says_how_many_points_are_undefined(self, hand: Hand):
        assert hand.viewer.scatter.axes.get_title() == "made: 2 experiments, 4 items; 1 point undefined and not drawn"

    def test_means_are_of_what_is_drawn(self, hand: Hand):
        np.testing.assert_array_equal(hand.viewer.scatter.means, [2.5, 4])
        assert [text.get_text() for text in hand.viewer.scatter.axes.get_legend().get_texts()] == [
            "first: mean 2.5",
            "second: mean 4",
        ]

    def test_one_line_of_markers_for_each_experiment(self, hand: Hand):
        heights = [line.get_ydata() for line in hand.viewer.scatter.lines]
        np.testing.assert_array_equal(heights, [[1, 2, 3, 4], [3, 1, NAN, 8]])

    def test_keys_go_through_all_scores_and_categories_and_back(self, hand: Hand):
        seen = []
        for _ in range(4):
            hand.key("y")
            seen.append(hand.viewer.view.y)
        assert seen == ["room", "item", "hit", "error"]
        hand.key("Y")
        assert hand.viewer.view.y == "hit"
        hand.key("x", "X", "shift+X")
        assert hand.viewer.view.x == "room"
        assert hand.screen.errors == []

    def test_d_shows_differences_and_scores_again(self, hand: Hand):
        hand.key("d")
        np.testing.assert_array_equal(hand.viewer.scatter.points[1, :, 1], [2, -1, NAN, 4])
        hand.key("d")
        np.testing.assert_array_equal(hand.viewer.scatter.points[1, :, 1], [3, 1, NAN, 8])

    def test_the_legend_hides_and_shows(self, hand: Hand):
        hand.click_legend("second")
        assert hand.viewer.view.hidden == {"second"}
        assert np.isnan(hand.viewer.scatter.points[1]).all()
        assert [line.get_visible() for line in hand.viewer.scatter.lines] == [True, False]
        hand.hover(0, "a/0")
        assert len(hand.viewer.hover.lines.get_xdata()) == 0  # no line to what is hidden
        hand.click_legend("second", before=9)  # on the mark before the text
        assert hand.viewer.view.hidden == set()
        assert not np.isnan(hand.viewer.scatter.points[1, 0]).any()

    def test_all_may_be_hidden(self, hand: Hand):
        for tag in ("first", "second"):
            hand.click_legend(tag)
        hand.viewer.act("show_item", item="a/0")
        assert hand.screen.errors == []
        assert "0 of 2 experiments" in hand.viewer.scatter.axes.get_title()

    @pytest.mark.parametrize("axis", ["x", "y"])
    def test_a_category_has_its_labels_on_either_axis(self, hand: Hand, axis: str):
        hand.viewer.act(axis, to="room")
        hand.draw()
        ticks = getattr(hand.viewer.scatter.axes, f"get_{axis}ticklabels")()
        assert [tick.get_text() for tick in ticks] == ["attic", "hall"]

    def test_of_many_labels_some_are_written(self):
        labels = [f"room {k:03}" for k in range(100)]
        hand = Hand([Made("a", {"hit": range(100)}, [f"i{k:03}" for k in range(100)], {"room": labels})], {"x": "room"})
        shown = [tick.get_text() for tick in hand.viewer.scatter.axes.get_xticklabels()]
        assert shown == labels[::3]
        assert hand.viewer.scatter.axes.get_xlabel() == "room (100 labels)"

    def test_a_part_that_the_user_chose_stays_until_the_axes_are_others(self, hand: Hand):
        axes, whole = hand.viewer.scatter.axes, hand.viewer.scatter.axes.get_xlim()
        axes.set_xlim(1, 2)
        hand.viewer.act("show_item", item="a/1")
        hand.viewer.act("toggle", tag="second")
        assert axes.get_xlim() == (1, 2)
        hand.viewer.act("toggle", tag="second")
        hand.viewer.act("order", to="score")
        assert axes.get_xlim() == whole

    def test_labels_stand_upright_where_they_would_overlap(self, tmp_path: Path):
        labels = ["staircase", "sunflower", "hall", "attic", "cellar", "kitchen"]
        hand = Hand([Made("a", {"hit": range(6)}, list("pqrstu"), {"room": labels})], {"x": "room"})
        axes, figure = hand.viewer.scatter.axes, hand.viewer.scatter.figure
        axes.set_xlim(1, 3)
        turned = []
        for width in (11, 5, 11):
            figure.set_size_inches(width, 6.5)
            hand.viewer.events.resized()
            turned.append(axes.get_xticklabels()[0].get_rotation())
        assert turned == [0, 90, 0]
        assert axes.get_xlim() == (1, 3)

    def test_rings_have_no_experiments_colour_and_are_explained(self, hand: Hand):
        hand.viewer.act("select", names='["a/0"]')
        hand.viewer.act("search", text="b/")
        axes, colours = hand.viewer.scatter.axes, set(hand.viewer.scatter.colours)
        rings = [line for line in axes.lines if line.get_markerfacecolor() == "none" and not line.get_animated()]
        assert {ring.get_markeredgecolor() for ring in rings} == {"white", "black"}
        assert not colours & {"white", "black"}
        said = [text.get_text() for text in axes.get_legend().get_texts()]
        assert said[2:] == ["selected", "holds what was searched for", "in a frame"]

    def test_the_mean_at_a_label_is_a_line_among_the_experiments_own_points(self, hand: Hand):
        hand.viewer.act("x", to="room")
        scatter = hand.viewer.scatter
        lines = [line for line in scatter.axes.lines if len(line.get_xdata()) == 6]  # of two labels
        assert [line.get_color() for line in lines] == ["black", scatter.colours[0], "black", scatter.colours[1]]
        first, second = lines[1].get_xdata(), lines[3].get_xdata()
        assert first[0] < scatter.points[0, 2, 0] < first[1] <= second[0] < scatter.points[1, 3, 0] < second[1]
        np.testing.assert_array_equal(lines[1].get_ydata(), [3.5, 3.5, 3.5, 1.5, 1.5, 1.5])


class TestHover:
    def test_the_nearest_point_is_named_with_lines_to_the_others(self, hand: Hand):
        hand.hover(0, "a/1")
        hover = hand.viewer.hover
        assert hover.at == (0, 1)
        assert hover.text.get_text() == "a/1\nfirst: error (px) 2"
        np.testing.assert_allclose(hover.lines.get_ydata(), [2, 1, NAN])
        np.testing.assert_allclose(np.round(hover.lines.get_xdata()), [1, 1, NAN])

    def test_an_undefined_point_gets_no_line(self, hand: Hand):
        hand.hover(0, "b/0")
        assert hand.viewer.hover.at == (0, 2)
        assert len(hand.viewer.hover.lines.get_xdata()) == 0

    def test_pixels_change_without_the_scatter_being_drawn_and_come_back(self, hand: Hand):
        canvas = hand.viewer.scatter.figure.canvas
        hand.draw()
        drawn = []
        canvas.mpl_connect("draw_event", drawn.append)
        before = np.array(canvas.buffer_rgba())
        hand.hover(0, "a/0")
        over = np.array(canvas.buffer_rgba())
        assert (before != over).any()
        hand.mouse("motion_notify_event", 1, 1)
        np.testing.assert_array_equal(canvas.buffer_rgba(), before)
        assert drawn == []
        assert hand.viewer.hover.at is None

    def test_far_from_all_points_nothing_is_named(self, hand: Hand):
        hand.draw()
        (left, low), (right, _) = hand.viewer.scatter.axes.bbox.get_points()
        hand.mouse("motion_notify_event", (left + right) / 2, low + 1)
        assert hand.viewer.hover.at is None

    def test_saving_a_picture_at_another_size_disturbs_nothing(self, hand: Hand, tmp_path: Path):
        hand.viewer.scatter.figure.savefig(tmp_path / "a.png", dpi=37)
        hand.hover(0, "a/1")
        assert hand.viewer.hover.at == (0, 1)
        assert hand.screen.errors == []

    def test_it_lasts_a_tenth_of_a_second_at_most_with_20_times_5000_points(self):
        import time

        names = [f"i{k:05}" for k in range(5000)]
        random = np.random.default_rng(0)
        hand = Hand([Made(f"tag{k}", {"hit": random.random(5000)}, names) for k in range(20)])
        hand.draw()
        taken = []
        for place in random.integers(0, 5000, 9).tolist():
            start = time.perf_counter()
            hand.hover(3, names[place])
            taken.append(time.perf_counter() - start)
        assert np.median(taken) < 0.1


class TestFrames:
    def test_a_click_opens_the_item_with_every_experiment(self, hand: Hand):
        hand.click(1, "b/1")
        assert list(hand.screen.figures) == [0, 1]
        said = hand.texts(1)
        assert said.count("value 3 of $truth_1") == 2
        for text in ("b/1", "first: error 4", "second: error 8"):
            assert text in said

    def test_before_a_frame_is_drawn_it_is_said(self, hand: Hand, monkeypatch):
        seen = []
        monkeypatch.setattr("benchkit.inspect.frames.ItemFrame.draw", lambda *_: seen.extend(hand.screen.said) or [])
        hand.click(1, "b/1")
        assert seen == [("drawing b/1 ...", False)]

    def test_hidden_experiments_are_not_drawn(self, hand: Hand):
        hand.click_legend("second")
        hand.click(0, "a/0")
        assert "second" not in hand.texts(1)
        assert "(1 hidden)" in hand.texts(1)
        hand.click_legend("second")
        assert "second: error 3" in hand.texts(1)

    def test_arrows_go_through_the_items_in_their_order_and_round(self, hand: Hand):
        hand.key("o", "o")  # by difference
        seen = []
        for _ in range(5):
            hand.key("right")
            seen.append(hand.viewer.frames[1].item)
        assert seen == ["a/1", "a/0", "b/1", "b/0", "a/1"]
        hand.key("left", frame=1)
        assert hand.viewer.frames[1].item == "b/0"
        assert list(hand.screen.figures) == [0, 1]

    def test_shift_opens_another_frame_and_delete_closes_it(self, hand: Hand):
        hand.click(0, "a/0")
        hand.key("shift+right", frame=1)
        hand.key("shift+right")
        assert {key: frame.item for key, frame in hand.viewer.frames.items()} == {1: "a/0", 2: "a/1", 3: "b/0"}
        assert hand.viewer.choices()["frames"] == {"1": "a/0", "2": "a/1", "3": "b/0"}
        hand.key("right", frame=2)
        assert hand.viewer.frames[2].item == "b/0"
        hand.key("delete", frame=2)
        assert list(hand.screen.figures) == [0, 1, 3]
        hand.key("delete", "delete", "delete")
        assert list(hand.screen.figures) == [0]
        hand.key("shift+left")
        assert hand.viewer.frames[1].item == "b/1"

    def test_there_is_an_end_to_frames(self, hand: Hand):
        for _ in range(17):
            hand.viewer.act("next_extra")
        assert len(hand.viewer.frames) == 16
        assert "16 frames are open" in hand.screen.errors[0]

    def test_t_shows_all_scores_as_text(self, hand: Hand):
        hand.click(0, "a/0")
        assert "hit 1" not in hand.texts(1)
        hand.key("t", frame=1)
        assert "hit 1\nerror 1\nroom: hall" in hand.texts(1)
        hand.key("t", frame=1)
        assert "hit 1" not in hand.texts(1)

    def test_shift_r_shows_the_next_kind_of_picture(self, hand: Hand):
        hand.click(0, "a/0")
        hand.key("R")
        assert hand.texts(1).count("other a/0 $x_1$") == 2
        hand.key("shift+r")
        assert "other" not in hand.texts(1)

    def test_another_axis_changes_the_score_beside_the_tags_without_drawing_pictures(self, hand: Hand, monkeypatch):
        hand.click(0, "a/0")
        monkeypatch.setattr("benchkit.experiments.draw.draw_item", lambda *_: pytest.fail("drawn"))
        hand.viewer.act("y", to="hit")
        assert "first: hit 1" in hand.texts(1)
        hand.viewer.act("diff_only")
        assert "second: hit 0 (-1 against first)" in hand.texts(1).replace("\n", " ")

    def test_a_difference_has_its_sign(self, pair: list[Made]):
        hand = Hand(pair, {"y": "error", "diff_only": "1", "item": "b/1"})
        assert "second: error 8 (+4 against first)" in hand.texts(1).replace("\n", " ")
        hand.viewer.act("show_item", item="b/0")
        assert "second: error n/a (n/a against first)" in hand.texts(1).replace("\n", " ")

    def test_between_two_categories_the_score_that_orders_items_is_told(self, pair: list[Made], monkeypatch):
        monkeypatch.setattr(type(pair[0].family), "order", lambda self, columns: ("error", "lower"))
        assert "first: error 4" in Hand(pair, {"x": "room", "y": "item", "item": "b/1"}).texts(1)

    def test_an_item_that_one_lacks_says_so(self, tmp_path: Path):
        both = [
            Made("first", {"hit": [1, 2]}, ["p", "q"], root=tmp_path),
            Made("second", {"hit": [1]}, ["q"], root=tmp_path),
        ]
        hand = Hand(both)
        hand.viewer.act("show_item", item="p")
        assert "not among its items" in hand.texts(1)
        assert "second: hit n/a" in hand.texts(1)
        assert hand.screen.errors == []

    def test_the_window_may_close_a_frame(self, hand: Hand):
        from matplotlib.backend_bases import CloseEvent

        hand.click(0, "a/0")
        before = hand.screen.changes
        CloseEvent("close_event", hand.screen.figures[1].canvas)._process()
        assert hand.viewer.frames == {}
        assert hand.screen.changes == before + 1
        assert "item" not in hand.viewer.state()

    def test_many_pictures_stand_so_that_they_are_large(self):
        assert columns(1, 1.0, (8, 5), False) == 1
        assert columns(2, 1.0, (8, 5), False) == 2
        assert columns(2, 4.0, (8, 5), False) == 1
        assert columns(20, 1.0, (13, 8), False) in (6, 7, 8)
        assert [columns(3, 1.0, (5.7, 3.2), texts) for texts in (False, True)] == [3, 2]  # text needs room


class TestFailures:
    def test_an_exception_in_draw_is_said_and_the_others_are_drawn(self, hand: Hand, monkeypatch):
        family = hand.viewer.joined.experiments[1].family

        def broken(*_: object) -> None:
            raise ValueError("no such $pixel_")

        monkeypatch.setattr(family, "draw", broken)
        hand.click(0, "a/0")
        assert hand.screen.errors == ["second: a/0 cannot be drawn: no such $pixel_"]
        said = hand.texts(1)
        assert "cannot be drawn" in said
        assert "value 0 of $truth_1" in said
        assert "cannot be drawn" in hand.viewer.scatter.status.get_text()
        hand.key("right")
        assert hand.viewer.frames[1].item == "a/1"

    def test_a_file_that_vanishes_is_said(self, hand: Hand):
        (hand.viewer.joined.experiments[0].folder / "predictions.h5").unlink()
        hand.click(0, "a/0")
        assert "predictions.h5" in hand.screen.errors[0]
        assert "second: error 3" in hand.texts(1)

    def test_an_exception_in_the_scatter_is_said(self, hand: Hand, monkeypatch):
        monkeypatch.setattr(hand.viewer.scatter, "draw", lambda *_: 1 / 0)
        hand.key("x")
        assert hand.screen.errors == ["unexpected ZeroDivisionError: division by zero."]
        monkeypatch.undo()
        hand.key("x")
        assert len(hand.screen.errors) == 1

    @pytest.mark.parametrize(
        ("action", "values", "said"),
        [
            ("dance", {}, "there is no action 'dance'"),
            ("x", {"to": "speed"}, "there is no 'speed'; there are hit, error, room, item."),
            ("show_item", {"item": "c/9"}, "no experiment has an item 'c/9'"),
            ("toggle", {"tag": "third"}, "there is no experiment 'third'"),
            ("select", {"mode": "magic"}, "by lasso or range, not by 'magic'"),
            ("select", {"names": "no json"}, "was not understood: 'no json' is no list"),
            ("select", {"names": "[" * 20_000}, "is no list"),
            ("x", {"step": "a"}, "was not understood: 'a' is no number"),
            ("save", {}, "no items are selected"),
            ("next", {"odd": "1"}, "the request next was not understood: it takes frame."),
            ("y", {"action": "x"}, "the request y was not understood: it takes to, step."),
        ],
    )
    def test_what_is_not_understood_is_said(self, hand: Hand, action: str, values: dict, said: str):
        hand.viewer.act(action, **values)
        assert len(hand.screen.errors) == 1
        assert said in hand.screen.errors[0]

    @pytest.mark.parametrize("frame", ["²", "9" * 5000, "-1", "one"])
    def test_a_frame_that_is_not_there_means_the_latest(self, hand: Hand, frame: str):
        hand.viewer.act("next", frame=frame)
        assert list(hand.viewer.frames) == [1]
        assert hand.screen.errors == []


class TestSearchAndSelection:
    def test_what_is_typed_after_a_slash_is_found_marked_and_opened(self, hand: Hand):
        hand.key("/", "B", "shift+:", "backspace", "/")
        assert "search: B/_" in hand.viewer.scatter.status.get_text()
        assert hand.viewer.view.search == ""
        hand.key("enter")
        assert hand.viewer.view.search == "B/"
        assert hand.viewer.frames[1].item == "b/0"
        assert hand.viewer.choices()["found"] == 2
        assert ("2 of 4 names hold 'B/'", False) in hand.screen.said
        rings = [line for line in hand.viewer.scatter.axes.lines if line.get_marker() == "o"][2]
        assert sorted(set(np.round(rings.get_xdata()[~np.isnan(rings.get_xdata())]))) == [2, 3]

    def test_letters_of_a_search_are_no_keys(self, hand: Hand):
        hand.key("/", "x", "d", "escape")
        assert (hand.viewer.view.x, hand.viewer.view.diff_only, hand.viewer.view.search) == ("item", False, "")
        hand.key("d")
        assert hand.viewer.view.diff_only

    def test_a_search_that_finds_nothing_says_so(self, hand: Hand):
        hand.viewer.act("search", text="zzz")
        assert hand.screen.said == [("0 of 4 names hold 'zzz'", False)]
        assert hand.viewer.frames == {}

    def _drag(self, hand: Hand, corners: list[tuple[float, float]]) -> None:
        hand.draw()
        places = hand.viewer.scatter.axes.transData.transform(corners).tolist()
        hand.mouse("button_press_event", *places[0], button=1)
        for place in places[1:]:
            hand.mouse("motion_notify_event", *place, button=1, buttons=[1])
        hand.mouse("button_release_event", *places[-1], button=1)

    def test_a_lasso_selects_the_items_within(self, hand: Hand):
        hand.key("s")
        self._drag(hand, [(-0.3, 0.8), (1.5, 0.8), (1.5, 2.5), (-0.3, 2.5), (-0.3, 0.8)])
        assert hand.viewer.view.selected == ["a/0", "a/1"]
        assert hand.viewer.choices()["selected"] == ["a/0", "a/1"]
        assert hand.viewer.frames == {}  # the press opened nothing
        hand.hover(0, "a/0")
        assert hand.viewer.hover.at == (0, 0)
        hand.click(0, "a/0")
        assert list(hand.viewer.frames) == [1]
        assert hand.screen.errors == []

    def test_a_rectangle_does_too(self, hand: Hand):
        hand.key("S")
        self._drag(hand, [(1.5, 2.5), (2.5, 5), (3.3, 8.2)])
        assert hand.viewer.view.selected == ["b/0", "b/1"]
        assert hand.screen.errors == []

    def test_escape_leaves_the_selection(self, hand: Hand):
        hand.key("s", "escape")
        hand.click(0, "a/0")
        assert list(hand.viewer.frames) == [1]

    def test_w_writes_the_names_and_no_file_twice(self, hand: Hand, tmp_path: Path, monkeypatch):
        folder = tmp_path / "here"
        folder.mkdir()
        monkeypatch.chdir(folder)
        hand.viewer.act("select", names=json.dumps(["b/0", "a/1", "nowhere"]))
        hand.key("w", "w")
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            "made-items.txt": "b/0\na/1\n",
            "made-items-2.txt": "b/0\na/1\n",
        }
        assert hand.screen.said[-1] == (f"2 names: {folder}/made-items-2.txt", False)


class TestState:
    def test_it_goes_out_and_comes_back(self, pair: list[Made], hand: Hand):
        hand.click(0, "b/0")
        hand.key("d", "o", "t", "R")
        hand.click_legend("second")
        hand.viewer.act("select", names='["a/1"]')
        hand.viewer.act("search", text="b/")
        state = hand.viewer.state()
        assert all(isinstance(text, str) for pair in state.items() for text in pair)
        again = Hand(pair, state)
        assert again.viewer.view == hand.viewer.view
        assert again.viewer.state() == state
        assert again.viewer.frames[1].item == "b/0"
        assert again.screen.said == [("drawing b/0 ...", False)]

    def test_what_is_wrong_in_it_is_said_and_left_out(self, pair: list[Made]):
        state = {"x": "speed", "y": "error", "diff_only": "yes", "hidden": "[3]", "selected": "{", "colour": "red"}
        hand = Hand(pair, {**state, "item": "c/9", "kind": "poem"})
        assert hand.viewer.view == View("room", "error")
        assert len(hand.screen.said) == 7
        assert hand.screen.errors == []
        assert "x=speed says nothing here" in hand.screen.said[0][0]

    def test_brackets_without_end_are_left_out(self, pair: list[Made]):
        assert len(read_view(Joined(pair), [], {"selected": "[" * 20_000})[1]) == 1

    def test_what_is_as_it_is_by_itself_is_left_out(self, pair: list[Made]):
        assert read_view(Joined(pair), [], {})[0].told() == {"x": "room", "y": "hit", "order": "name"}

    def test_choices_are_plain_json(self, hand: Hand):
        hand.click(0, "a/0")
        told = json.loads(json.dumps(hand.viewer.choices()))
        assert told["axes"] == ["hit", "error", "room", "item"]
        assert told["kinds"] == ["item", "other"]
        assert [(each["tag"], each["visible"]) for each in told["experiments"]] == [("first", True), ("second", True)]


class TestSeveral:
    def test_two_viewers_do_not_disturb_each_other(self, pair: list[Made]):
        one, two = Hand(pair, {"x": "item"}), Hand(pair, {"x": "item"})
        one.click(0, "a/0")
        one.key("y", "d")
        one.hover(0, "a/1")
        assert (two.viewer.view.y, two.viewer.view.diff_only, two.viewer.frames) == ("hit", False, {})
        assert list(two.screen.figures) == [0]
        assert two.viewer.hover.at is None
        two.click(1, "b/1")
        assert one.viewer.frames[1].item == "a/0"
        assert one.screen.figures[1] is not two.screen.figures[1]

    def test_nothing_is_kept_in_pyplot(self, hand: Hand):
        import matplotlib

        before = dict(matplotlib.rcParams)
        from matplotlib._pylab_helpers import Gcf

        hand.click(0, "a/0")
        assert not Gcf.figs
        assert dict(matplotlib.rcParams) == before


class TestStrangeNames:
    def test_they_are_shown_as_they_are(self, tmp_path: Path):
        names = ["<b>$a_1$</b>", r"$\frac{"]
        hand = Hand([Made(EVIL, {"hit": [1, 2]}, names, {"room $_": ["$x^", "<i>"]}, root=tmp_path)])
        hand.hover(0, names[0])
        assert hand.viewer.hover.text.get_text() == f"{names[0]}\n{EVIL}: hit 1"
        hand.viewer.act("show_item", item=names[1])
        hand.screen.figures[1].canvas.draw()
        assert r"$\\frac{" in hand.texts(1) or names[1] in hand.texts(1)
        assert EVIL.split(" $")[0] in hand.texts(1)
        for figure in hand.screen.figures.values():
            named = [text for text in figure.findobj(Text) if "$" in text.get_text()]
            assert named
            assert not any(text.get_parse_math() for text in named)
        assert hand.screen.errors == []

    def test_control_letters_are_escaped(self):
        hand = Hand([Made("a\nb", {"hit": [1]}, ["p\x1bq"])])
        hand.hover(0, "p\x1bq")
        assert hand.viewer.hover.text.get_text() == "p\\x1bq\na\\nb: hit 1"


class TestFew:
    def test_one_item_of_one_experiment(self, tmp_path: Path):
        hand = Hand([Made("alone", {"hit": [0.5]}, ["only"], root=tmp_path)])
        hand.hover(0, "only")
        assert hand.viewer.hover.at == (0, 0)
        hand.click(0, "only")
        hand.key("right", "left", "d", "o", "x", "y", "o", "o", "o")
        assert hand.viewer.frames[1].item == "only"
        assert hand.screen.errors == []
        assert hand.viewer.scatter.axes.get_title().startswith("made: 1 experiment, 1 item")

    def test_nothing_defined(self):
        hand = Hand([Made("alone", {"hit": [NAN] * 4})])
        assert hand.viewer.scatter.axes.get_title() == "made: 1 experiment, 4 items; 4 points undefined and not drawn"
        hand.mouse("motion_notify_event", 300, 300)
        hand.key("right")
        assert hand.viewer.hover.at is None

    def test_a_family_without_scores_of_items(self, tmp_path: Path):
        hand = Hand([Made("alone", {}, root=tmp_path)])
        assert hand.viewer.view.y == "item"
        hand.viewer.act("next")
        assert hand.texts(1).split("\n")
        assert hand.screen.errors == []


class TestKeys:
    def test_each_key_has_one_meaning(self):
        keys = [key for each in KEYS for key in each.keys]
        assert len(keys) == len(set(keys))

    @pytest.mark.parametrize(
        ("key", "action"),
        [("shift+r", "kind"), ("shift+R", "kind"), ("R", "kind"), ("shift+?", "help"), ("shift+right", "next_extra")],
    )
    def test_shift_is_told_in_several_ways(self, key: str, action: str):
        found = named(key)
        assert found is not None
        assert found.action == action

    def test_unknown_keys_do_nothing(self, hand: Hand):
        hand.key("q", "ctrl+x", "f1", "shift+")
        assert hand.screen.said == []

    def test_the_help_names_every_key_and_goes_again(self, hand: Hand):
        hand.key("h")
        overlay = hand.viewer.scatter.overlay
        assert overlay.get_visible()
        assert all(each.help in " ".join(overlay.get_text().split()) for each in KEYS)
        hand.viewer.scatter.figure.set_size_inches(4, 6)
        hand.viewer.scatter.fit()
        hand.screen.figures[0].canvas.draw()
        assert overlay.get_window_extent().width < 400
        hand.key("?")
        assert not overlay.get_visible()
