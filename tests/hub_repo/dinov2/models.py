import os

import torch
from torch import nn

from dinov2.layers import Block, token

XFORMERS = os.environ.get("XFORMERS_DISABLED") is None  # as upstream: read once, at import


class SmallVit(nn.Module):
    def __init__(self, img_size=56, registers=0, width=16):
        super().__init__()
        self.patch_size, self.n_blocks, self.registers, self.xformers = 14, 3, registers, XFORMERS
        self.patch_embed = nn.Conv2d(3, width, 14, 14)
        self.cls_token, self.register_tokens = token(1, width), token(registers, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.norm.weight)

    def get_intermediate_layers(self, image, n, reshape, return_class_token, norm):
        grid = self.patch_embed(image)
        before = torch.cat([self.cls_token, self.register_tokens], 1).expand(len(image), -1, -1)
        tokens = torch.cat([before, grid.flatten(2).transpose(1, 2)], 1)
        given = []
        for number, block in enumerate(self.blocks):
            tokens = block(tokens)
            if number in n:
                patches = tokens[:, 1 + self.registers :].transpose(1, 2).reshape(grid.shape)
                given.append((patches, tokens[:, 0]))
        return tuple(given)
