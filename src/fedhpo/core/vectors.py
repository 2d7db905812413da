"""The type of a model's state as one flat vector."""

import numpy as np
from numpy.typing import NDArray

#: A model's state, or a change of it, as one flat vector.
Vector = NDArray[np.float32]
