"""A model with a frozen base, for tests over Flower."""

import torch
from torch import nn
from torch.nn import functional as F


class Adapted(nn.Module):
    """A frozen map of six features, a low-rank change of it, and a head of three classes."""

    def __init__(self, rank=2):
        super().__init__()
        base = torch.randn(16, 6, generator=torch.Generator().manual_seed(3))
        self.base = nn.Parameter(base.bfloat16(), requires_grad=False)
        self.down = nn.Parameter(0.1 * torch.randn(rank, 6))
        self.up = nn.Parameter(torch.zeros(16, rank))
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(torch.tanh(F.linear(x, self.base.float()) + x @ self.down.T @ self.up.T))


class OtherBase(Adapted):
    """The same layout on other pretrained weights."""

    def __init__(self, rank=2):
        super().__init__(rank)
        self.base = nn.Parameter(self.base.data + 1, requires_grad=False)


def adapter(rank):
    """Shapes of what is trained, in the order of the vector."""
    return {"down": (rank, 6), "up": (16, rank), "head.weight": (3, 16), "head.bias": (3,)}
