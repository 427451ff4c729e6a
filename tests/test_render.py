"""The scene generator: equal bytes for equal items, and buffers that agree with geometry worked out by hand."""

import numpy as np

from benchkit.render.raycast import render
from benchkit.render.scene import make_scene


def test_equal_items_give_equal_bytes_in_any_order():
    first = [render(make_scene(f"test/{k}", 0, k), 64).rgb.tobytes() for k in range(4)]
    again = [render(make_scene(f"test/{k}", 0, k), 64).rgb.tobytes() for k in reversed(range(4))][::-1]
    assert first == again
    assert len(set(first)) == 4


def test_buffers_have_the_promised_types():
    seen = render(make_scene("test/0", 0, 0), 48)
    assert (seen.rgb.shape, seen.rgb.dtype) == ((48, 48, 3), np.uint8)
    assert (seen.depth.shape, seen.depth.dtype) == ((48, 48), np.float32)
    assert (seen.normals.shape, seen.normals.dtype) == ((48, 48, 3), np.float32)
    assert (seen.instance.shape, seen.instance.dtype) == ((48, 48), np.int16)
