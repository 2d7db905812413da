"""FedTune: a reference table of client hyperparameters from proxy data, in which each client looks itself up.

Paper: "Demystifying hyperparameter optimization in federated learning", under review at ICLR 2022.
"""

from fedhpo.methods.fedtune.ask_profiles import ProfileQuery
from fedhpo.methods.fedtune.cells import Cells
from fedhpo.methods.fedtune.fill import Simulation, fill_table
from fedhpo.methods.fedtune.measures import MEASURES, profiled
from fedhpo.methods.fedtune.profiles import Profiles
from fedhpo.methods.fedtune.proxy import Proxies, ProxySet
from fedhpo.methods.fedtune.reference_table import ReferenceTable
from fedhpo.methods.fedtune.simulator import Simulated, Simulator
from fedhpo.methods.fedtune.table_policy import TablePolicy
from fedhpo.methods.fedtune.tuner import CellSearch, CellTuner, tune_cells

__all__ = [
    "MEASURES",
    "CellSearch",
    "CellTuner",
    "Cells",
    "ProfileQuery",
    "Profiles",
    "Proxies",
    "ProxySet",
    "ReferenceTable",
    "Simulated",
    "Simulation",
    "Simulator",
    "TablePolicy",
    "fill_table",
    "profiled",
    "tune_cells",
]
