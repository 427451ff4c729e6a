"""The item frames that are open, and which item each of them shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchkit.errors import UsageError, printable
from benchkit.experiments.draw import Images
from benchkit.inspect.frames import ItemFrame

if TYPE_CHECKING:
    from benchkit.inspect.viewer import Viewer

FIRST, MOST = 1, 16  # key of the frame that a click opens, and how many frames there may be
OF_FRAMES = ("next", "previous", "next_extra", "previous_extra", "show_item", "open", "close")  # actions of a `Desk`
NAMING = ("next", "previous", "next_extra", "previous_extra", "close")  # those that take the key of a frame


class Desk:
    """Item frames of a viewer.

    Attributes:
        frames: by key, from 1.
        latest: key of the frame that was looked at last; what names no frame means this one.
    """

    def __init__(self, viewer: Viewer) -> None:
        self.viewer, self.images = viewer, Images()
        self.frames: dict[int, ItemFrame] = {}
        self.latest = FIRST

    def next(self, frame: str = "") -> None:
        """The next item in the order, in a frame that is there, or in the first."""
        self._put(self._key(frame), self._beside(1, self._key(frame)))

    def previous(self, frame: str = "") -> None:
        """The item before, likewise."""
        self._put(self._key(frame), self._beside(-1, self._key(frame)))

    def next_extra(self, frame: str = "") -> None:
        """The next item, in a further frame."""
        self.open(self._beside(1, self._key(frame)))

    def previous_extra(self, frame: str = "") -> None:
        """The item before, in a further frame."""
        self.open(self._beside(-1, self._key(frame)))

    def show_item(self, item: str) -> None:
        """An item in the first frame."""
        self._put(FIRST, item)

    def open(self, item: str) -> None:
        """An item in a further frame.

        Raises:
            UsageError: there are too many.
        """
        free = next((key for key in range(FIRST, FIRST + MOST) if key not in self.frames), None)
        if free is None:
            raise UsageError(f"{MOST} frames are open: close one first (delete).")
        self._put(free, item)

    def close(self, frame: str = "") -> None:
        """Take a frame off the screen."""
        key = self._key(frame)
        if key in self.frames:
            self.forget(key)
            self.viewer.window.close(key)

    def forget(self, key: int) -> None:
        """A frame is gone from the screen."""
        if self.frames.pop(key, None) is None:
            return
        self.latest = max(self.frames, default=FIRST)
        if key == FIRST:
            self.viewer.view.item = ""
        self.viewer.redraw()

    def draw(self) -> None:
        """Draw all of them anew."""
        for frame in self.frames.values():
            self._show(frame, frame.item)

    def resized(self, key: int) -> None:
        """A frame has another size: its pictures are arranged anew."""
        if key in self.frames:
            self._show(self.frames[key], self.frames[key].item)

    def caption(self) -> None:
        """Another score stands beside the tags."""
        for frame in self.frames.values():
            frame.caption(self.viewer.view)
            frame.figure.canvas.draw_idle()

    def _key(self, frame: str) -> int:
        """The key of a frame that is there: the one named, else the latest; the first where there is none."""
        named = next((key for key in self.frames if str(key) == frame), self.latest)
        return named if named in self.frames else max(self.frames, default=FIRST)

    def _beside(self, step: int, key: int) -> str:
        """The item before or after that of a frame, from the last on to the first; without a frame the first or last."""
        names, order = self.viewer.joined.names, self.viewer.order
        if key not in self.frames:
            return names[order[0 if step > 0 else -1]]
        place = order.index(self.viewer.joined.position[self.frames[key].item])
        return names[order[(place + step) % len(order)]]

    def _put(self, key: int, item: str) -> None:
        """Show an item in a frame, which is opened where it is not there."""
        viewer, frame = self.viewer, self.frames.get(key)
        if frame is not None:
            self._show(frame, item)
        else:
            joined = viewer.joined
            viewer.window.say(f"drawing {printable(item)} ...")  # the first time it takes seconds
            frame = ItemFrame(joined, self.images, len(joined.tags) - len(viewer.view.hidden))
            self._show(frame, item)
            self.frames[key] = frame
            viewer.window.open(key, frame.figure, f"{joined.experiments[0].benchmark}: frame {key}")
            viewer.events.listen(key, frame.figure)
        self.latest = key
        if key == FIRST:
            viewer.view.item = item
        viewer.redraw()

    def _show(self, frame: ItemFrame, item: str) -> None:
        failed = frame.draw(item, self.viewer.view)
        frame.figure.canvas.draw_idle()
        if failed:
            self.viewer.tell("; ".join(failed), error=True)
