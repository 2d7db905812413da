"""A network with one hidden layer that learns which outputs are rewarded (REINFORCE, Williams, 1992)."""

from __future__ import annotations

import math

import numpy as np

from fedhpo.protocol.federation import Floats

#: Adam's decay rates and its small number (Kingma and Ba, 2015).
_FIRST, _SECOND, _SMALL = 0.9, 0.999, 1e-8


class Network:
    """`outputs` numbers from `inputs` numbers; all outputs are 0 at first.

    >>> network = Network(2, 3, hidden=4, rng=np.random.default_rng(0))
    >>> network(np.ones((5, 2))).tolist() == [[0.0] * 3] * 5
    True
    """

    def __init__(self, inputs: int, outputs: int, hidden: int, rng: np.random.Generator) -> None:
        self.weights: list[Floats] = [
            rng.normal(size=(inputs, hidden)) / math.sqrt(inputs),
            rng.normal(size=hidden),
            np.zeros((hidden, outputs)),
            np.zeros(outputs),
        ]
        self._means = [np.zeros_like(w) for w in self.weights]
        self._squares = [np.zeros_like(w) for w in self.weights]
        self._steps = 0

    def __call__(self, inputs: Floats) -> Floats:
        """One row of outputs for each row of inputs."""
        found: Floats = self._hidden(inputs) @ self.weights[2] + self.weights[3]
        return found

    def _hidden(self, inputs: Floats) -> Floats:
        found: Floats = np.tanh(inputs @ self.weights[0] + self.weights[1])
        return found

    def gradient(self, inputs: Floats, outer: Floats) -> list[Floats]:
        """Of the sum over all outputs times `outer`, by each of the weights."""
        hidden = self._hidden(inputs)
        inner = (outer @ self.weights[2].T) * (1 - hidden**2)
        return [inputs.T @ inner, inner.sum(axis=0), hidden.T @ outer, outer.sum(axis=0)]

    def climb(self, inputs: Floats, outer: Floats, rate: float) -> None:
        """One step of Adam up that gradient; the rate falls with the root of the number of steps."""
        self._steps += 1
        rate /= math.sqrt(self._steps)
        for place, slope in enumerate(self.gradient(inputs, outer)):
            self._means[place] += (1 - _FIRST) * (slope - self._means[place])
            self._squares[place] += (1 - _SECOND) * (slope**2 - self._squares[place])
            mean = self._means[place] / (1 - _FIRST**self._steps)
            square = self._squares[place] / (1 - _SECOND**self._steps)
            self.weights[place] = self.weights[place] + rate * mean / (np.sqrt(square) + _SMALL)

    def to_dict(self) -> dict[str, list[object]]:
        """Its weights, JSON-able."""
        names = ("input_weights", "input_biases", "output_weights", "output_biases")
        return {name: weight.tolist() for name, weight in zip(names, self.weights, strict=True)}
