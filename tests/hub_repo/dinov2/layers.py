import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())

    def forward(self, tokens):
        normed = self.norm(tokens)
        tokens = tokens + self.mix(normed, normed, normed, need_weights=False)[0]
        return tokens + self.mlp(tokens)


def token(count, width):
    return nn.Parameter(torch.randn(1, count, width))
