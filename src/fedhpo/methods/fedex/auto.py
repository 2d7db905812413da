"""FedEx without knobs: the choices of `FedEx.auto()`.

They come from `fedhpo reproduce fedex-critique --only develop`, which compares candidates on arms and seeds
of their own (CIFAR-10, 40 rounds, 27 arms, 4 and 30 clients); docs/reproductions/fedex-critique.md has its
figures, and those of the test on other arms and seeds. Elimination and landmarks did not help there:
dropping arms by evidence from few rounds costs more in the ranking than it spares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Falls with the number of updates, whatever their size: with "adaptive" one large gradient stills the rest.
STEPS = "auto"
#: The difference to before training takes out what a client, or the progress of training, adds to a loss.
DIFFERENCE = True
#: The mean over all past rounds has least noise, and differences change slowly enough for it.
GAMMA = 1.0
#: For differences "pretrain" is 0, and would reward whatever is sampled first.
BASELINE = "skip"
#: Bounds importance weights: no arm starves, and none is carried away by one lucky draw.
EXPLORE = "auto"
#: Later rounds mislead: the better the model, the more one round of a large step harms it. At 30 clients the
#: correlation of an arm's gain with its worth falls from +0.2 in the first third to -0.4 over all of them.
UNTIL = 0.3
#: Cuts off what a diverged client says: a few times the loss of guessing among 1000 classes.
CLIP = 10.0

AUTO: Mapping[str, Any] = {
    "steps": STEPS,
    "difference": DIFFERENCE,
    "gamma": GAMMA,
    "baseline": BASELINE,
    "explore": EXPLORE,
    "until": UNTIL,
    "clip": CLIP,
}
