"""What a model's builder makes of settings is said before the first round."""

from __future__ import annotations

import warnings

import pytest
from torch import nn

import fedhpo as fh
from fedhpo.data import load
from fedhpo.federations.remote.models import TorchModel
from fedhpo.space.config import Config

_RATE = Config(client={"lr": 0.1, "dropout": 0.2})


def _plain() -> nn.Module:
    return nn.Linear(5, 3)


def _dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.1), nn.Linear(8, 3))


def test_a_dropout_rate_without_dropout_layers_is_said_wherever_training_is():
    data = load("synthetic", clients=4, samples=[20, 30], dimension=5, classes=3)
    said = r"client\.dropout = 0\.2: has no effect, as the model has no dropout layers"
    with (
        fh.simulate(model=_plain, data=data, workers=0) as federation,
        pytest.warns(UserWarning, match=said),
    ):
        federation.preflight(_RATE, "accuracy")
    with pytest.warns(UserWarning, match=said):
        TorchModel(_plain).preflight(_RATE)


def test_a_dropout_rate_that_layers_take_is_not_warned_of():
    data = load("synthetic", clients=4, samples=[20, 30], dimension=5, classes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fh.simulate(model=_dropping, data=data, workers=0) as federation:
            federation.preflight(_RATE, "accuracy")
        TorchModel(_dropping).preflight(_RATE)
        TorchModel(_plain).preflight(Config(client={"lr": 0.1}))
