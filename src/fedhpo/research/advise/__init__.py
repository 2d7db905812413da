"""How noisy will evaluation be, what does that do to selection, and what to use: computed, not quoted.

The four best practices of "On noisy evaluation in federated hyperparameter tuning" (Kuo et al., 2023,
section 6) say: use simple methods under noise; ask enough validation clients (about 100 without privacy); ask
representative ones; consider proxy data. What is enough depends on the study. Here it is worked out from
what a few configs score at each validation client: in a short pilot, or in a table.
"""

from fedhpo.research.advise.advice import Advice, advise, check_advice
from fedhpo.research.advise.pilot import Pilot, pilot_of_table, run_pilot
from fedhpo.research.advise.quality import Noise, Quality, measure, predict, standard_error

__all__ = [
    "Advice",
    "Noise",
    "Pilot",
    "Quality",
    "advise",
    "check_advice",
    "measure",
    "pilot_of_table",
    "predict",
    "run_pilot",
    "standard_error",
]
