"""Local training, aggregation and evaluation on this machine."""

import numpy as np
from numpy.typing import NDArray

#: A model's state, or a change of it, as one flat vector.
Vector = NDArray[np.float32]
