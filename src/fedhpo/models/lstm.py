"""Recurrent networks for text: next character (Shakespeare) or next word."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.models._checks import rate
from fedhpo.models.input import Input


def lstm(
    shape: tuple[int, ...],
    classes: int,
    *,
    vocabulary: int | None = None,
    embedding: int = 8,
    hidden: int = 256,
    layers: int = 2,
    dropout: float = 0.0,
    per_token: bool = False,
) -> nn.Module:
    """Embedding, stacked LSTM, linear output for each of `classes`.

    The defaults are the Shakespeare network: one label per sequence, from the last hidden state.
    With `per_token=True` there is an output at every position, shape (batch, length, classes); the
    next-word networks use that with embedding=128 and hidden=128. `vocabulary` is the number of
    tokens, by default the number of classes. Dropout acts between the last LSTM and the output.
    """
    if len(shape) != 1:
        raise InputError(f"lstm takes token sequences of shape (length,), found shape {shape}")
    if not isinstance(per_token, bool):
        raise InputError(f"per_token must be true or false, found {per_token!r}")
    return LSTM(
        Input(shape),
        classes if vocabulary is None else whole_number("vocabulary", vocabulary),
        whole_number("embedding", embedding),
        whole_number("hidden", hidden),
        whole_number("layers", layers),
        rate("dropout", dropout),
        classes,
        per_token,
    )


class LSTM(nn.Module):
    """See `lstm`."""

    def __init__(
        self,
        checked: Input,
        vocabulary: int,
        embedding: int,
        hidden: int,
        layers: int,
        dropout: float,
        classes: int,
        per_token: bool,
    ) -> None:
        super().__init__()
        self.per_token = per_token
        self.input = checked
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = self.input(tokens)
        if tokens.dtype not in (torch.int64, torch.int32):
            raise InputError(f"lstm takes tokens as whole numbers, found {tokens.dtype}")
        states, _ = self.lstm(self.embedding(tokens))
        outputs: Tensor = self.output(self.dropout(states if self.per_token else states[:, -1]))
        return outputs
