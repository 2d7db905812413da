"""Hostile clients, to try what training and selection withstand: in simulation and over Flower, in process.

An `Attack` says what a hostile client sends in place of what it should. `hostile` turns a share of a
simulated federation's clients hostile, `fedhpo.testing.attacks.flower.HostileApp` those of a Flower app, and
`flipped` the labels that they train on.

>>> import fedhpo as fh
>>> federation = fh.simulate("mlp", fh.load("digits", clients=20), aggregation="median", workers=0)
>>> hostile(federation, SignFlip(scale=10.0), share=0.25).clients.tolist()
[8, 9, 14, 15, 17]
"""

from __future__ import annotations

from fedhpo.testing.attacks.adversary import Hostile, hostile, hostile_clients, majority_chance
from fedhpo.testing.attacks.attack import Attack, Together
from fedhpo.testing.attacks.labels import flipped
from fedhpo.testing.attacks.scores import InvertedScores, ThresholdScores
from fedhpo.testing.attacks.sizes import SizeLie
from fedhpo.testing.attacks.updates import InnerProduct, LittleIsEnough, Noise, NotANumber, SignFlip

__all__ = [
    "Attack",
    "Hostile",
    "InnerProduct",
    "InvertedScores",
    "LittleIsEnough",
    "Noise",
    "NotANumber",
    "SignFlip",
    "SizeLie",
    "ThresholdScores",
    "Together",
    "flipped",
    "hostile",
    "hostile_clients",
    "majority_chance",
]
