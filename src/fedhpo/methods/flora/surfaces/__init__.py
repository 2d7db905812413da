"""Loss surfaces: from the parties' own searches to one config for all (FLoRA, Zhou et al., 2023).

>>> from fedhpo.space import Float, Space
>>> space = Space(model={"x": Float(0, 1)})
>>> def party(number, best):
...     configs = tuple(space.grid(21))
...     return PartyPairs(number, 100, configs, tuple(abs(c.model["x"] - best) for c in configs))
>>> surface = fit_surface("mplm", space, [party(0, 0.2), party(1, 0.8)], seed=0)
>>> config, loss = minimise(surface, space, seed=0)
>>> round(config.model["x"], 1), round(loss, 1)
(0.5, 0.3)
"""

from fedhpo.methods.flora.surfaces.diagnostics import diagnose
from fedhpo.methods.flora.surfaces.fit import SURFACES, fit_surface
from fedhpo.methods.flora.surfaces.minimise import minimise
from fedhpo.methods.flora.surfaces.surface import WEIGHTINGS, Surface
from fedhpo.queries.pairs import PartyPairs
from fedhpo.surrogates.regressors import REGRESSORS

__all__ = [
    "REGRESSORS",
    "SURFACES",
    "WEIGHTINGS",
    "PartyPairs",
    "Surface",
    "diagnose",
    "fit_surface",
    "minimise",
]
