"""What the classes of a timm classifier are called."""

from __future__ import annotations

from typing import Any

from timm.data import ImageNetInfo, infer_imagenet_subset

from benchkit.backbones.base import Label


def labels_of(net: Any) -> tuple[Label, ...]:
    """The labels of `net`'s classifier: those its configuration lists, else ImageNet's, told by how many there are.

    1,000 classes are taken to be ImageNet-1k's and so on for 12k, 21k and 22k: timm's own weights are ordered so. Empty
    for any other number.
    """
    count = int(getattr(net, "num_classes", 0) or 0)
    listed = net.pretrained_cfg.get("label_names")
    if listed and len(listed) == count:
        return tuple(Label("", (str(name),)) for name in listed)
    subset = infer_imagenet_subset(net) if count else None
    if not subset:
        return ()
    info = ImageNetInfo(subset)
    wnids = [info.index_to_label_name(number) for number in range(count)]
    names = [info.index_to_description(number).split(", ") for number in range(count)]
    return tuple(Label(wnid, tuple(each)) for wnid, each in zip(wnids, names, strict=True))
