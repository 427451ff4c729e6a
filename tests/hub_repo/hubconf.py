"""A small repository for torch.hub with the interface of facebookresearch/dinov2, for tests of how such code is loaded."""

from dinov2.models import SmallVit

dependencies = ["torch"]


def dinov2_vits14(*, pretrained=True, **kwargs):
    """A ViT of three blocks. Its weights are random: `pretrained` must be false."""
    assert not pretrained
    return SmallVit(**kwargs)


def dinov2_vits14_reg(*, pretrained=True, **kwargs):
    """The same with four registers."""
    assert not pretrained
    return SmallVit(registers=4, **kwargs)


def classifier(*, pretrained=True):
    """Something without layers."""
    return SmallVit().norm
