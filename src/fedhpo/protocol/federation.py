"""The federation protocol: all that a method can say to a federation, and what comes back.

A method never knows where training happens; a federation never knows which method drives it. Every
runtime (simulated, Ray, Flower, tabular) is a `Federation` and passes the same conformance suite,
`fedhpo.testing.federation`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.core.notebook import facts_as_html
from fedhpo.core.settings import is_number
from fedhpo.protocol.about import About
from fedhpo.protocol.errors import TrialError as TrialError
from fedhpo.protocol.metrics import Metric
from fedhpo.protocol.reasons import Reason, as_reason
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.data.columns import Preparation
    from fedhpo.data.encoding import Encoding

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SplitName = Literal["train", "validation", "test"]

#: Scores a client can take of the model inside a round, on its own validation data.
BEFORE, AFTER = "before", "after"

#: What a federation may be able to do; a method that needs more is refused at the start.
CLIENT_CONFIGS = "client configs"  # a config for each member of a cohort
FORK = "fork"  # copy a trial
MIX = "mix"  # move a trial's weights towards another's, at the server
QUERY = "query"  # work at the clients that is not a round
REPEATABLE = "repeatable"  # the same calls give the same results, bit for bit
SCORES_IN_ROUND = "scores in a round"  # training clients hold validation data
PRODUCTS = "products of updates"  # norms and inner products of a round's updates, at the server


class Status(enum.IntEnum):
    """A client's reply: it was used, the client failed (with the reason), or no reply came."""

    OK = 0
    FAILED = 1
    MISSING = 2


@runtime_checkable
class ClientSide(Protocol):
    """A rule that each client resolves itself, from facts that stay with it.

    Neither the config nor anything computed from those facts comes back, is recorded or is charged.
    """

    def resolve(self, labels: NDArray[Any], classes: int | None) -> Mapping[str, Any]:
        """The client hyperparameters for a client whose training labels these are."""

    def to_dict(self) -> dict[str, Any]:
        """What is sent to the clients, JSON-able."""


@dataclass(frozen=True)
class Work:
    """One round of one trial: which clients train, with which hyperparameters, and how updates are combined.

    `client` is one mapping for the whole cohort, one per member, or a `ClientSide` rule. With `products` the
    report holds `Products` of the updates. `starts` are the moments of simulated time at which each member
    starts, where the federation has a clock; see `Federation.timed`. `horizon` is the round at which
    schedules end, where that is not the end of a full training.
    """

    trial: int
    cohort: Sequence[int]
    client: Mapping[str, Any] | Sequence[Mapping[str, Any]] | ClientSide
    server: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[str, ...] = (BEFORE, AFTER)
    minimum: int = 1
    products: bool = False
    starts: tuple[float, ...] = ()
    horizon: int | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "cohort", tuple(int(client) for client in self.cohort))
        except (TypeError, ValueError):
            raise InputError(f"cohort must list the numbers of clients, not {self.cohort!r}") from None
        if not self.cohort:
            raise InputError("cohort is empty: a round needs at least one client")
        if len(set(self.cohort)) != len(self.cohort):
            raise InputError(f"cohort names a client twice: {list(self.cohort)}")
        each = [self.client] if isinstance(self.client, Mapping) else self.client
        listed = isinstance(each, Sequence) and all(isinstance(one, Mapping) for one in each)
        rule = hasattr(self.client, "resolve") and hasattr(self.client, "to_dict")
        if not listed and not rule:
            raise InputError(
                "client must map hyperparameters to values, for the whole cohort or for each member, not "
                f"{self.client!r}"
            )
        if not isinstance(self.server, Mapping):
            raise InputError(f"server must map hyperparameters to values, not {self.server!r}")
        if isinstance(self.client, Sequence) and len(self.client) != len(self.cohort):
            raise InputError(f"{len(self.client)} client configs for a cohort of {len(self.cohort)}")
        if not isinstance(self.starts, tuple | list) or not all(map(is_number, self.starts)):
            raise InputError(f"starts must list the moments at which members start, not {self.starts!r}")
        if self.starts and len(self.starts) != len(self.cohort):
            raise InputError(f"{len(self.starts)} starts for a cohort of {len(self.cohort)}")
        if not isinstance(self.minimum, int) or not 1 <= self.minimum <= len(self.cohort):
            raise InputError(f"minimum must lie in 1..{len(self.cohort)} (the cohort), not {self.minimum}")
        if not isinstance(self.scores, tuple | list):
            raise InputError(f"scores must be a tuple of {BEFORE!r} and {AFTER!r}, not {self.scores!r}")
        if self.products and rule and not listed:
            raise InputError("products of updates cannot go with a rule that clients resolve themselves")
        for score in self.scores:
            if score not in (BEFORE, AFTER):
                raise InputError(f"unknown score {score!r}; known: {BEFORE}, {AFTER}")

    @property
    def by_rule(self) -> bool:
        """Whether the clients resolve their hyperparameters themselves."""
        return not isinstance(self.client, Mapping | Sequence)

    def config_of(self, member: int) -> Mapping[str, Any]:
        """The client hyperparameters of one member, by its position in the cohort."""
        if isinstance(self.client, Mapping):
            return self.client
        if isinstance(self.client, Sequence):
            return self.client[member]
        raise TypeError("a ClientSide rule is resolved at the client")

    def to_dict(self) -> dict[str, Any]:
        """The work as JSON-able data, for the record and for messages."""
        client: Any
        if isinstance(self.client, Mapping):
            client = dict(self.client)
        elif isinstance(self.client, Sequence):
            client = [dict(config) for config in self.client]
        else:
            client = {"rule": self.client.to_dict()}
        return {
            "trial": self.trial,
            "cohort": list(self.cohort),
            "client": client,
            "server": dict(self.server),
            "scores": list(self.scores),
            "minimum": self.minimum,
            **({"products": True} if self.products else {}),
            **({"starts": list(self.starts)} if self.starts else {}),
            **({"horizon": self.horizon} if self.horizon else {}),
        }


@dataclass(frozen=True)
class Cost:
    """What a call cost; costs add up, and the ledger holds the sum."""

    rounds: int = 0
    client_rounds: int = 0
    bytes_down: int = 0
    bytes_up: int = 0
    samples: int = 0
    evaluations: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Products:
    """Norms and inner products of a round's updates, for policies that learn from directions.

    An update is what a client's training changed; the aggregate is what the updates of the round were put
    together to, before the server's optimiser. `squared` (the squared norm of each member's update) and
    `with_previous` (its inner product with the aggregate of the trial's round before) have one entry per
    member, NaN where its reply was not used. `aggregate_squared` and `aggregate_with_previous` are the same
    of the aggregate. What needs the round before is NaN in the first round in which products are asked for.
    """

    squared: Floats
    with_previous: Floats
    aggregate_squared: float
    aggregate_with_previous: float


@dataclass(frozen=True)
class UpdateShapes:
    """The length of each member's update, and its cosine with what all of them were put together to.

    NaN where no update was used. Four digits are kept.
    """

    length: Floats
    cosine: Floats


@dataclass(frozen=True)
class RoundReport:
    """What came back from one round, one entry per member of the cohort and in its order.

    Scores are means over the client's own validation data; NaN where the client has none, did not
    reply, or was not asked. `train_size` is 0 where the client did not say. `round` counts the
    rounds the trial has behind it, this one included. `applied` is False where fewer than the
    minimum replied: the model and its round clock are then as they were before. `reasons` says why a
    member failed or is missing, by its position in the cohort. `products` are there where the work asked for
    them and the round was applied. `updates` tell which members' updates were unlike the others', where the
    server holds all updates of a round: under every rule but the mean. `span` are the seconds of simulated
    time at which the round began and ended, where the federation has a clock.
    """

    trial: int
    round: int
    applied: bool
    cohort: Ints
    status: NDArray[np.int8]
    train_size: Ints
    validation_size: Ints
    loss_before: Floats
    loss_after: Floats
    accuracy_before: Floats
    accuracy_after: Floats
    reasons: Mapping[int, Reason] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    products: Products | None = None
    updates: UpdateShapes | None = None
    span: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        _type_reasons(self)

    @classmethod
    def unscored(
        cls,
        work: Work,
        round: int,
        applied: bool,
        status: NDArray[np.int8],
        train_size: Ints,
        validation_size: Ints,
        reasons: Mapping[int, Reason] | None = None,
        cost: Cost | None = None,
    ) -> RoundReport:
        """A report of members that scored neither before nor after they trained."""
        a, b, c, d = np.full((4, len(work.cohort)), np.nan)
        return cls(
            work.trial,
            round,
            applied,
            np.array(work.cohort, np.int64),
            status,
            train_size,
            validation_size,
            *(a, b, c, d),
            reasons or {},
            cost or Cost(),
        )

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Which members' replies were used."""
        return np.equal(self.status, Status.OK)

    def mean(self, score: str, weighting: Literal["size", "uniform"] = "size") -> float:
        """Mean of a score ("loss_before", ...) over the members that have one; NaN without any."""
        return weighted_mean(getattr(self, score), self.validation_size, weighting)


@dataclass(frozen=True)
class Scores:
    """Scores of one trial's model at many clients, without training: one entry per client."""

    trial: int
    split: SplitName
    clients: Ints
    status: NDArray[np.int8]
    size: Ints
    loss: Floats
    accuracy: Floats
    reasons: Mapping[int, Reason] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    #: Further metrics by name, where these were asked for with `Federation.measure`.
    metrics: Mapping[str, Floats] = field(default_factory=dict)
    #: Of simulated time, where the federation has a clock: the whole evaluation's, the same for all trials.
    seconds: float = 0.0

    def __post_init__(self) -> None:
        _type_reasons(self)

    def mean(self, metric: str, weighting: Literal["size", "uniform"] = "size") -> float:
        """Mean of "loss", "accuracy" or a further metric over the clients that have one; NaN without any."""
        found = self.metrics[metric] if metric in self.metrics else getattr(self, metric)
        return weighted_mean(found, self.size, weighting)


def _type_reasons(item: RoundReport | Scores) -> None:
    """Make reasons of sentences, where a federation tells no more than these."""
    if any(isinstance(reason, str) for reason in item.reasons.values()):
        found = {
            place: as_reason(reason, failed=item.status[place] != Status.MISSING)
            for place, reason in item.reasons.items()
        }
        object.__setattr__(item, "reasons", found)


def weighted_mean(values: Floats, sizes: Ints, weighting: Literal["size", "uniform"] = "size") -> float:
    """Mean of the values that are not NaN, weighted by size or uniformly.

    >>> weighted_mean(np.array([0.5, np.nan, 1.0]), np.array([3, 5, 1]))
    0.625
    """
    unknown = np.isnan(values)
    if unknown.any():
        values, sizes = values[~unknown], sizes[~unknown]
    weights = sizes if weighting == "size" else np.ones(len(values))
    total = weights.sum(dtype=np.float64)
    # As `np.average` computes it, which takes longer to look at its arguments.
    return float(np.multiply(values, weights, dtype=np.float64).sum() / total) if total else float("nan")


@dataclass(frozen=True)
class Answer:
    """A client's answer to a query: JSON-able `content` if the status is `OK`, else the reason."""

    client: int
    status: Status
    content: Any = None
    reason: Reason | None = None
    cost: Cost = field(default_factory=Cost)

    def __post_init__(self) -> None:
        given: Any = self.reason
        if isinstance(given, str):  # of a federation that tells no more than a sentence
            found = as_reason(given, failed=self.status != Status.MISSING) if given else None
            object.__setattr__(self, "reason", found)


@runtime_checkable
class Query(Protocol):
    """Work at the clients that is not a round, such as `fedhpo.protocol.fine_tune.FineTune`."""

    @property
    def name(self) -> str:
        """The name under which clients know this kind of work."""

    def to_dict(self) -> dict[str, Any]:
        """What is sent to the clients, JSON-able."""


@dataclass(frozen=True)
class TrialState:
    """Everything needed to go on with a trial: arrays, and JSON-able facts."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]


class Federation(ABC):
    """Server, clients and model: all that a method can talk to.

    A federation is a context manager: leaving the block frees its processes and connections.
    """

    #: Whether clients score by metrics of their own, which fedhpo knows only by name.
    own_metrics: bool = False
    #: Whether clients are asked by messages, so that their replies are checked and may be late.
    remote: bool = False
    #: What this federation can do, out of the names above.
    capabilities: frozenset[str]
    #: Clients that can train, that hold validation data, that hold test data.
    train_clients: Ints
    validation_clients: Ints
    test_clients: Ints
    #: What clients are called, where they have names of their own.
    client_names: Sequence[str] | None = None
    #: Whether it simulates time: who is there, and when rounds end.
    timed: bool = False
    #: "classification", "regression" or "language", where that is known.
    task: str | None = None
    #: Where it runs: "simulation", "flower", "nvflare" or "table"; empty where a study does not know it.
    place: str = ""
    #: Whether trainings and evaluations are cut into tasks by what they cost, which sums depend on.
    cut_by_cost: bool = False
    #: Whether a trial's model can be fine-tuned at clients.
    fine_tunes: bool = True
    #: By what clients that search on their own rows may score; None where any of their scorers goes.
    local_scorings: Sequence[str] | None = None
    #: What is tuned where a space names nothing.
    usual_space: Space | None = None
    #: The rounds of one full training, as `expect` told; 0 where nobody said.
    training_rounds: int = 0
    #: The dataclass of client hyperparameters, where fedhpo's own local training reads them.
    client_settings: type[Any] | None = None

    @property
    def about(self) -> About:
        """What this federation is, as one value; a runtime sets the attributes that it is made of."""
        return About(**{one.name: getattr(self, one.name) for one in fields(About)})

    def __repr__(self) -> str:
        about = self.describe()
        counts = f"{len(self.train_clients)} clients train, {len(self.validation_clients)} validate"
        return f"<{type(self).__name__}: {about.get('data', about.get('runtime', ''))}, {counts}>"

    @property
    def trust(self) -> str:
        """Where clients are real: what a hostile one can do to training, in words. Empty in a simulation."""
        return ""

    def _repr_html_(self) -> str:
        return facts_as_html(type(self).__name__, self.describe())

    def expect(self, rounds: int) -> None:
        """Hear how long one full training is, so that clients can plan a schedule over its rounds."""
        self.training_rounds = rounds

    def why_no_mean(self, model: Mapping[str, Any]) -> str:
        """Why the mean of two trials' weights would not be a mean of their models; empty where it is."""
        return ""

    def why_no_horizon(self, space: Space) -> str:
        """Why `Work.horizon` would change nothing here; empty where some schedule follows it."""
        return "nothing that is trained here reads how many rounds there are"

    @abstractmethod
    def start(self, trial: int, model: Mapping[str, Any], seed: int) -> None:
        """A fresh model under the number `trial`; `model` holds the hyperparameters of its shape."""

    @abstractmethod
    def fork(self, source: int, target: int) -> None:
        """Make `target` a copy of `source`: weights, server optimiser state and round clock.

        Both must have the same model shape. The target keeps its own random stream. Where a round of the
        source is under way, the copy is of the model before it.
        """

    def mix(self, source: int, target: int, share: float) -> None:
        """Move `target` by this share of the way towards `source`: its weights; else it becomes a copy.

        With shares of 1, 1/2, 1/3 and so on a trial is the mean of what it was mixed from. As in `fork`, both
        must have the same model shape. Federations that are able to (`MIX`) have it.
        """
        raise InputError("this federation cannot mix models")

    @abstractmethod
    def stop(self, trial: int) -> None:
        """Free the trial."""

    @abstractmethod
    def submit(self, work: Work) -> None:
        """Begin a round; its report is fetched with `next_done`. One round per trial at a time."""

    @abstractmethod
    def next_done(self, trial: int | None = None) -> RoundReport:
        """The report of a submitted round that has ended, of any trial or of the one named."""

    def ready(self) -> list[int]:
        """Trials whose round has ended: `next_done` need not wait for these. Empty if unknown."""
        return []

    def present(self, time: float, least: int, clients: Ints) -> tuple[float, Ints]:
        """The first moment from `time` on at which `least` of these clients are there, and who is.

        Only where the federation is `timed`: else all are there, at all times. The same at every call.
        """
        return time, clients

    def starts(self, cohort: Sequence[int], time: float, beside: Sequence[Work]) -> list[float]:
        """When each of a cohort can start on a round: from `time` on, after what it does in other rounds.

        Those are the rounds under way, and those that are to be submitted with it.
        """
        return [time] * len(cohort)

    def round(self, work: Sequence[Work]) -> list[RoundReport]:
        """One round of each of several trials, side by side; reports in the order of the work.

        A runtime may plan the pieces together here, which it may not for single `submit`s.
        """
        for piece in work:
            self.submit(piece)
        return [self.next_done(piece.trial) for piece in work]

    @abstractmethod
    def evaluate(
        self, trials: Sequence[int], clients: Sequence[int] | Ints, split: SplitName = "validation"
    ) -> list[Scores]:
        """Scores of each trial's model at these clients, without training."""

    def measure(self, metrics: Sequence[Metric]) -> None:
        """Have clients compute these metrics too when they evaluate; see `fedhpo.protocol.metrics`."""
        if metrics:
            raise InputError(
                f"metric {metrics[0].name!r}: {type(self).__name__} has 'accuracy', 'error' and 'loss' only"
            )

    @abstractmethod
    def query(self, task: Query, clients: Sequence[int] | Ints) -> list[Answer]:
        """Ask the clients to do work that is not a round; one answer per client, in order."""

    @abstractmethod
    def state(self, trial: int) -> TrialState:
        """What is needed to go on with the trial, bit for bit; the arrays are not copied."""

    @abstractmethod
    def restore(self, trial: int, state: TrialState) -> None:
        """Bring a trial back as `state` described it."""

    def model(self, trial: int) -> Any:
        """The trial's model, to be used outside the federation; None where there is none to be had."""
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON-able facts for the run and the report: the runtime, its size, how it trains."""

    # What a runtime may have besides; `About` says what each is.

    @property
    def scoring(self) -> str | None:
        """The learners' scorer; the loss in their scores is 1 minus it. None: the model's own loss."""
        return None

    @property
    def pool(self) -> Sequence[Config] | None:
        """The only configs there are."""
        return None

    @property
    def zoo(self) -> dict[str, Any] | None:
        """What builds the model, where it is one of fedhpo's."""
        return None

    @property
    def encoding(self) -> Encoding | None:
        """How columns became features."""
        return None

    @property
    def preparation(self) -> Preparation | None:
        """What encoded rows go through before the model sees them."""
        return None

    @property
    def majority(self) -> float | None:
        """The share of the commonest class among validation rows."""
        return None

    def preflight(self, config: Config, metric: str) -> None:  # noqa: B027  a runtime may have nothing to try
        """Try what training will do, before round 1, on a batch of one client.

        Raises `InputError` for what cannot be trained or scored, saying what to write instead, and warns of
        what is doubtful. Nothing is charged, recorded or left behind, and results stay the same bit for bit.
        """

    def stable_name(self, client: int) -> str | None:
        """What a client is called in every run over the same clients; None where nothing tells it apart."""
        if self.client_names is not None:
            return str(self.client_names[client])
        return str(client) if REPEATABLE in self.capabilities else None

    def fingerprint(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """What results depend on besides the calls, JSON-able: data, model, code and settings by name.

        A run keeps it, and is not continued with another one; see `fedhpo.core.fingerprint`. `model` holds
        hyperparameters of a shape, to describe the model by. Left out is what does not change results, such
        as the number of workers. A federation that knows no more says how many clients it has, and its class.
        """
        from fedhpo.core.fingerprint import code_of

        clients = {
            "train": self.train_clients,
            "validation": self.validation_clients,
            "test": self.test_clients,
        }
        counts = {split: len(numbers) for split, numbers in clients.items()}
        return {"clients": counts, "federation": code_of(type(self))}

    def by_rows(self, model: Mapping[str, Any]) -> bool:
        """Whether such models have embeddings whose touched rows alone are trained and summed."""
        return False

    def folds(self, cohort: int, model: Mapping[str, Any]) -> bool:
        """Whether updates of such a round are added up in groups, so that a repeat depends on which."""
        return False

    def distances(self, clients: Sequence[int] | Ints, seed: int) -> dict[str, Any] | None:
        """How far apart the clients' rows are (`fedhpo.data.distances`); None if that cannot be computed."""
        return None

    @property
    @abstractmethod
    def trials(self) -> Sequence[int]:
        """The trials started and not stopped, in ascending order."""

    def save(self, path: str | Path) -> None:
        """Write every trial's state to a directory."""
        from fedhpo.protocol.state_file import write_state

        directory = Path(path)
        directory.mkdir(parents=True, exist_ok=True)
        for trial in self.trials:
            write_state(directory / f"trial-{trial}.safetensors", self.state(trial))

    def load(self, path: str | Path) -> None:
        """Bring back every trial that `save` wrote; others are stopped."""
        from fedhpo.protocol.state_file import read_state

        for trial in list(self.trials):
            self.stop(trial)
        for file in sorted(Path(path).glob("trial-*.safetensors")):
            self.restore(int(file.stem.removeprefix("trial-")), read_state(file))

    def require(self, needed: Iterable[str], by: str) -> None:
        """Refuse, with a clear message, a method that needs more than this federation can do."""
        lacking = sorted(set(needed) - self.capabilities)
        if lacking:
            raise InputError(f"{by} needs a federation with: {', '.join(lacking)}; this one lacks that")

    def check_products(self, work: Work) -> None:
        """Refuse work that asks for products of updates where this federation cannot take them."""
        if work.products and PRODUCTS not in self.capabilities:
            raise InputError("products: this federation cannot take products of updates")

    def close(self) -> None:  # noqa: B027  a runtime may have nothing to free
        """Free processes and connections; the federation cannot be used afterwards."""

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
