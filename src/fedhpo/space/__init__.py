"""The search space: named hyperparameters in four scopes, and all that is done with points of it.

>>> import numpy as np
>>> space = Space(
...     client={"lr": Float(1e-4, 1.0, log=True), "batch_size": Ordinal([8, 16, 32, 64]), "epochs": 1},
...     server={"lr": Float(0.1, 10.0, log=True)},
... )
>>> space.names
('client.batch_size', 'client.lr', 'server.lr')
>>> print(space.default())
client(batch_size=32, epochs=1, lr=0.01) server(lr=1)
>>> space.contains(space.sample(np.random.default_rng(0)))
True
"""

from fedhpo.space._continuous import Float
from fedhpo.space._discrete import Choice, Int, Ordinal
from fedhpo.space._ends import ends
from fedhpo.space._form import dotted
from fedhpo.space._hyperparameter import Hyperparameter
from fedhpo.space._space import Space

__all__ = ["Choice", "Float", "Hyperparameter", "Int", "Ordinal", "Space", "dotted", "ends"]
