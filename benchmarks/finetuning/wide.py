"""A base that is large beside its adapters: 60 MB."""

from __future__ import annotations

import torch
from char_gpt import TOKENIZER
from torch import Tensor, nn

_WIDTH = 2200


class Wide(nn.Module):
    """Three square maps of frozen size; the same numbers in every build."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.tokens = nn.Embedding(TOKENIZER.vocab_size, _WIDTH)
            self.maps = nn.Sequential(*(nn.Linear(_WIDTH, _WIDTH) for _ in range(3)))
            self.head = nn.Linear(_WIDTH, TOKENIZER.vocab_size)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next character; of all positions alike, which keeps it quick."""
        return self.head(self.maps(self.tokens(x).mean(1, keepdim=True))).expand(-1, x.shape[1], -1)
