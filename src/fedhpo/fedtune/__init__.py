"""FedTune: a reference table of client hyperparameters from proxy data, looked up privately by each client.

Paper: "Demystifying hyperparameter optimization in federated learning", under review at ICLR 2022.
"""

from fedhpo.fedtune.cells import Cells
from fedhpo.fedtune.fill import Simulation, fill_table
from fedhpo.fedtune.measures import MEASURES, profiled
from fedhpo.fedtune.proxy import Proxies, ProxySet
from fedhpo.fedtune.simulator import Simulated, Simulator
from fedhpo.fedtune.table import ReferenceTable
from fedhpo.fedtune.tuner import CellSearch, CellTuner, tune_cells

__all__ = [
    "MEASURES",
    "CellSearch",
    "CellTuner",
    "Cells",
    "Proxies",
    "ProxySet",
    "ReferenceTable",
    "Simulated",
    "Simulation",
    "Simulator",
    "fill_table",
    "profiled",
    "tune_cells",
]
