"""FedEx without knobs: the choices of `FedEx.auto()`.

They come from `fedhpo reproduce fedex-critique --only develop`, which compares candidates on arms and seeds
of their own; docs/reproductions/fedex-critique.md has the figures of the test on others. They are
provisional until that has run at its default scale: so far they rank arms best on handwritten digits (40
rounds, 27 arms, B = 4; at B = 30 they are ahead of all plain settings).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Scale-free, so that it fits any loss; with bounded gradients no single round dominates the sum.
STEPS = "adaptive"
#: The difference to before training takes out what a client, or the progress of training, adds to a loss.
DIFFERENCE = True
#: The mean over all past rounds has least noise, and differences change slowly enough for it.
GAMMA = 1.0
#: For differences "pretrain" is 0, and would reward whatever is sampled first.
BASELINE = "skip"
#: Bounds importance weights: no arm starves, and none is carried away by one lucky draw.
EXPLORE = "auto"
#: What is hopeless need not be explored further: that gives back the accuracy that exploration costs.
ELIMINATE = 0.1
#: Cuts off what a diverged client says: a few times the loss of guessing among 1000 classes.
CLIP = 10.0

AUTO: Mapping[str, Any] = {
    "steps": STEPS,
    "difference": DIFFERENCE,
    "gamma": GAMMA,
    "baseline": BASELINE,
    "explore": EXPLORE,
    "eliminate": ELIMINATE,
    "clip": CLIP,
}
