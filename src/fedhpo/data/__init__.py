"""Client data: the container, users' own data, sets by name, partitions, splits and profiles."""

from fedhpo.data.build import from_arrays, from_clients
from fedhpo.data.columns import from_csv, from_frames, without_missing
from fedhpo.data.container import IGNORE, FederatedData, Split
from fedhpo.data.dataset import from_dataset
from fedhpo.data.distance import distances, wasserstein
from fedhpo.data.encoding import Encoding
from fedhpo.data.lazy import from_loader
from fedhpo.data.load import DATASETS, Dataset, datasets, load
from fedhpo.data.mixing import mix_validation
from fedhpo.data.partition import IID, Dirichlet, Natural, Partitioner, Shards, partition_from_dict
from fedhpo.data.profile import Profile, heterogeneity_index, label_entropy, profile, quantity
from fedhpo.data.skew import GaussianSkew, HeterogeneityIndex, PoissonSkew
from fedhpo.data.split import SPLIT_RULES, ClientPools, GivenParts, InsideClients, SplitRule, split_from_dict
from fedhpo.data.texts import Characters, from_text

__all__ = [
    "DATASETS",
    "IGNORE",
    "IID",
    "SPLIT_RULES",
    "Characters",
    "ClientPools",
    "Dataset",
    "Dirichlet",
    "Encoding",
    "FederatedData",
    "GaussianSkew",
    "GivenParts",
    "HeterogeneityIndex",
    "InsideClients",
    "Natural",
    "Partitioner",
    "PoissonSkew",
    "Profile",
    "Shards",
    "Split",
    "SplitRule",
    "datasets",
    "distances",
    "from_arrays",
    "from_clients",
    "from_csv",
    "from_dataset",
    "from_frames",
    "from_loader",
    "from_text",
    "heterogeneity_index",
    "label_entropy",
    "load",
    "mix_validation",
    "partition_from_dict",
    "profile",
    "quantity",
    "split_from_dict",
    "wasserstein",
    "without_missing",
]
