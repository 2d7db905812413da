"""A training function that leaves in the model what its context says."""

import torch
from torch import nn


class Slate(nn.Linear):
    """Three classes of six features, all weights zero at first."""

    def __init__(self):
        super().__init__(6, 3)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


def note(model, data, hyperparameters, context):
    drawn = torch.randint(1000, (1,), generator=context.generator)
    facts = [context.round, context.rounds, context.trial, context.client, context.seed % 1000, int(drawn)]
    with torch.no_grad():
        model.weight[0] = torch.tensor(facts, dtype=torch.float32)
        model.weight[1, 0] = float(context.device == "cpu")


def note_by_generator(model, data, hyperparameters, generator):
    assert isinstance(generator, torch.Generator)
    with torch.no_grad():
        model.weight[0, 5] = float(torch.randint(1000, (1,), generator=generator))
