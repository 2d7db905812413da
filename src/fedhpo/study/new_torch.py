"""What `fedhpo new torch` writes: a study of a PyTorch model that runs at once, to change line by line."""

from __future__ import annotations

from string import Template

_STUDY = Template("""\
# fedhpo check study.toml    is it right, and what will it cost?
# fedhpo tune study.toml     tune it; the result, the model and a report are in runs/$name
name = "$name"
[data]
name = "data:clients"      # your rows: the function `clients` in data.py
[model]
name = "model:Net"         # your model: the class `Net` in model.py
[space.client]             # what is tuned at the clients; `default` is what you use today
lr = { low = 1e-3, high = 1.0, log = true, default = 0.01 }
batch_size = { choices = [8, 16, 32], default = 16 }
epochs = 1
[space.server]             # at the server
lr = { low = 0.3, high = 3.0, log = true, default = 1.0 }
[space.model]              # arguments of Net
hidden = { choices = [16, 32, 64], default = 32 }
[budget]                   # which method tunes is chosen by rule: see `fedhpo check`
rounds = 9                 # communication rounds of one full training
total = 90                 # rounds over all trials
cohort = 5                 # clients in a round
baseline = true            # train your own config as long as the winner, to compare
""")

_MODEL = '''\
"""The model: any torch.nn.Module. Arguments that [space.model] tunes are keywords."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)
'''

_DATA = '''\
"""The data: for each client a pair of arrays, or any torch.utils.data.Dataset."""

import numpy as np

# Rows to begin with: three classes in eight dimensions, at clients that see the classes in different shares.
# Replace this function by one that reads yours; fedhpo keeps a tenth of each client's rows for validation and
# a tenth for the test. See fedhpo.from_clients for splits of your own.


def clients(count: int = 20) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 8))
    found = {}
    for number in range(count):
        y = rng.choice(3, size=60, p=rng.dirichlet(np.ones(3)))
        x = centres[y] + rng.normal(size=(60, 8))
        found[f"client {number}"] = x.astype(np.float32), y
    return found
'''


def study_files(name: str) -> dict[str, str]:
    """The files by their places in the study's directory."""
    return {"study.toml": _STUDY.substitute(name=name), "model.py": _MODEL, "data.py": _DATA}
