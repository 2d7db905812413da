"""The sections of a study file, and which values they allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from fedhpo.core.claims import Where, counts_where, refuse, why_not
from fedhpo.core.phrasing import shown
from fedhpo.engine.hyperparameters import Local
from fedhpo.federations.fleet import Fleet
from fedhpo.protocol.objective import Objective
from fedhpo.search.evaluator import Evaluator
from fedhpo.study.from_dataclass import section_of


class Section(BaseModel):
    """A table whose keys are all known."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    #: Keys that count only beside others: see `fedhpo.core.claims`.
    counts: ClassVar[Mapping[str, Sequence[Where]]] = {}

    def refuse_uncounted(self, where: str) -> None:
        """Refuse keys that were set and do not count beside the others."""
        refuse(
            f"{where}.{key} = {shown(getattr(self, key))}: {why}"
            for key in sorted(self.model_fields_set & self.counts.keys())
            if (why := why_not(dict(self), self.counts[key]))
        )


class OpenSection(Section):
    """A table whose other keys depend on what it names; these are checked by `fedhpo.study.checks`."""

    model_config = ConfigDict(extra="allow")

    @property
    def others(self) -> dict[str, Any]:
        """The keys beyond the section's own, as given."""
        return dict(self.model_extra or {})


class Data(OpenSection):
    """The clients and their data.

    Further keys are options of the data set. Of a function of your own (`"package.module:function"`), all
    keys but `name` and `mixing` are its arguments; it returns a `FederatedData`, or what
    `fedhpo.from_clients` takes.
    """

    name: str = Field(
        "csv", description="a data set, or `package.module:function`; may be left out where `files` is given"
    )
    clients: int | None = Field(None, ge=1, description="number of clients; the set's own if left out")
    partition: dict[str, Any] | None = Field(
        None,
        description="how rows are dealt to clients, by `kind`",
        examples=["{ kind = 'dirichlet', alpha = 0.5 }"],
    )
    split: dict[str, Any] | None = Field(None, description="which rows validate and test, by `kind`")
    seed: int = Field(
        0,
        ge=0,
        description="deals and splits rows; apart from the study's, which may change for a new search",
    )
    mixing: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of each client's validation rows that is replaced by draws from everybody's: 0 "
        "leaves clients as they are, 1 makes them alike",
    )
    part: list[float] | None = Field(
        None,
        description="only this part of the set's rows, such as `[0.0, 0.7]`; parts that do not overlap share "
        "no row, whatever the seeds: so clients and `[proxy.data]` can be kept apart",
    )
    path: str | None = Field(
        None, description="directory of the data files; the one that FEDHPO_DATA names if left out"
    )


class Model(OpenSection):
    """The model that is trained; further keys are fixed hyperparameters of its shape."""

    name: str = Field(description="a model of `fedhpo.models`, or `package.module:Name`")


class App(Section):
    """A Flower app that is tuned as it is, in place of `[data]` and `[model]`.

    Names in `[space.client]` are keys of the app's run config (dotted ones too) or of the config that its
    server sends to clients, or arguments in its code, such as `"task:AdamW.lr"`; in `[space.model]` those
    that shape the model; in `[space.server]` arguments of its strategy's constructor. `[objective]` names a
    metric, its direction, and where it comes `from`. The app's number of rounds follows `[budget]`.
    """

    path: str = Field(description="the app's directory, which holds its `pyproject.toml`")
    clients: int = Field(10, ge=1, description="nodes in this process")
    setup: str | None = Field(
        None,
        description="`package.module:function`, called before the app is imported: to replace its data, say",
    )
    node_config: dict[str, str | int | float | bool] = Field(
        {},
        description="further keys of the nodes' config in this process, such as `dataset-path`; `{}` in a "
        "text is the node's number",
    )
    learning_curve: bool = Field(
        False, description="whether clients score each model before training too, where no method needs it"
    )


class Job(Section):
    """An NVFlare job that is tuned as it is, in place of `[data]` and `[model]`.

    Names in `[space]` are options of its scripts (`epochs`), or arguments in its code, such as
    `"client:SGD.lr"`. Every training is a run of the job in NVFlare's simulator, of all its sites; its number
    of rounds follows the study. `[objective]` names a metric, its direction, and where it comes `from`:
    "training" (replies of sites, or what they track), or "clients" (NVFlare lets them validate the final
    model).
    """

    path: str = Field(
        description="the job's directory, with a `job.py`, such a script itself, or an exported job"
    )
    arguments: list[str] = Field([], description="further arguments of `job.py`, such as `--synthetic_data`")
    scored: Literal["received", "trained"] = Field(
        "received",
        description="what metrics in replies are about: the model that a site received (NVFlare's "
        "convention; a run then has one round more), or the one that it trained",
    )
    clients: int | None = Field(None, ge=1, description="sites of an exported job, which does not say it")
    setup: str | None = Field(
        None,
        description="`package.module:function`, called in every process of the job with a function that "
        "calls others after imports: to replace its data, say",
    )
    timeout: float = Field(3600.0, gt=0, description="seconds that one run of the job may take")

    def scored_counts(self, source: str) -> bool:
        """Whether `scored`, if it was set, has an effect."""
        return source != "clients" or "scored" not in self.model_fields_set


class OwnTraining(Section):
    """How clients train: fixed hyperparameters of fedhpo's local training, or a training of their own.

    The names in `[space.client]` are those of fedhpo's training, and what stands here is not tuned. With a
    training of their own the names in `[space.client]` are that training's, of any scalar type.
    """

    counts = {"open": counts_where(hyperparameters=None)}

    train: str | None = Field(
        None,
        description="`package.module:function`, called as `function(model, data, hyperparameters, "
        "context)`: trains the module in place; the context tells round, rounds, trial, client, seed, device",
    )
    hyperparameters: list[str] | None = Field(
        None, description="the names that such training takes; others are refused"
    )
    open: bool = Field(
        False,
        description="clients train in their own way (over Flower, say): any name in `[space.client]` goes",
    )


if TYPE_CHECKING:

    class Client(OwnTraining):
        """Made below."""

else:
    Client = create_model(
        "Client",
        __base__=OwnTraining,
        __doc__=OwnTraining.__doc__,
        **{
            f.name: (
                get_type_hints(Local)[f.name],
                Field(f.default, description="of fedhpo's training; fixed"),
            )
            for f in fields(Local)
        },
    )


class Server(Section):
    """How the server puts updates together; hyperparameters of its optimiser stand in `[space.server]`."""

    counts = dict.fromkeys(("optimiser", "aggregation", "trim", "clip_norm"), counts_where(strategy=None))

    optimiser: str = Field("fedavg", description="server optimiser, or `package.module:Name`")
    strategy: str | None = Field(
        None,
        description="in place of `optimiser` and `aggregation`: a strategy of Flower's (`FedAdam`, `Krum`, "
        "`DifferentialPrivacyServerSideFixedClipping(FedAvg)`), or `package.module:Name`; `[space.server]` "
        "holds arguments of its constructor",
    )
    weighting: Literal["size", "uniform"] = Field("size", description="a client's weight: its rows, or 1")
    aggregation: (
        Literal[
            "mean",
            "median",
            "trimmed_mean",
            "norm_clipping",
            "centred_clipping",
            "multi_krum",
            "nnm",
            "direction_filter",
            "agreement_filter",
            "safe",
            "strict",
        ]
        | str
        | dict[str, Any]
        | None
    ) = Field(
        None,
        description="a rule, or a preset that some hostile clients cannot overturn; `mean` in a simulation "
        "and `safe` over Flower and NVFlare if left out. Your own is `package.module:Name`, with settings "
        '`{ name = "package.module:Name", ... }`',
    )
    trim: float = Field(
        0.1,
        ge=0,
        lt=0.5,
        description="share of hostile clients that a rule guards against; a preset has its own",
    )
    weight_cap: float | None = Field(
        None,
        ge=1,
        description="the most that a client weighs, in median sizes of its cohort; 2 over Flower and NVFlare "
        "if left out",
    )
    clip_norm: float | None = Field(None, gt=0, description="longest update; longer ones are shortened")


class Remote(Section):
    """How clients that are asked by messages are waited for."""

    clients: int | None = Field(
        None,
        ge=1,
        description="clients to wait for before the run begins; `budget.cohort` if left out, else "
        "`data.clients`, else ten, or fewer where no further one comes for ten seconds",
    )
    patience: float = Field(300.0, gt=0, description="seconds to wait for them")
    deadline: float = Field(600.0, gt=0, description="seconds that a client has for each task")
    retries: int = Field(1, ge=0, description="how often a task is sent again after an error that may pass")
    quorum: int = Field(1, ge=1, description="replies without which a round does not count")
    message_bytes: int = Field(1 << 26, ge=1, description="bytes of models that one message may hold")
    hold_replies: float = Field(
        0.0,
        ge=0,
        description="seconds after which a client's reply to a training leaves, however long it trained, so "
        "that its time tells neither epochs nor rows; less than `deadline`",
    )
    most_rows: int = Field(1_000_000, ge=1, description="the most rows that a client may say it has")


class Flower(Remote):
    """How the clients of a Flower app are waited for; other runs do not look at this section."""


class NVFlare(Remote):
    """How the clients of an NVFlare job are waited for; other runs do not look at this section."""


class SpaceSection(Section):
    """What is tuned, by scope: a table is a hyperparameter, a bare value is fixed."""

    use: str | list[str] | None = Field(
        None, description="published ranges, by one name or several; what stands in the scopes replaces them"
    )
    client: dict[str, Any] = Field({}, description="local training")
    server: dict[str, Any] = Field({}, description="the server optimiser")
    model: dict[str, Any] = Field({}, description="the model's shape")
    policy: dict[str, Any] = Field({}, description="knobs of the method itself")


class Budget(Section):
    """What may be spent."""

    counts = {"margin": counts_where(stop="decided")}

    rounds: int = Field(ge=1, description="rounds of one final training")
    total: int | None = Field(None, ge=1, description="rounds over all trials; 10 x `rounds` if left out")
    cohort: int | None = Field(
        None, ge=1, description="clients in a round; 10, or all where there are fewer, if left out"
    )
    tuning: Literal["none"] | None = Field(
        None,
        description="`none`: your own config is trained once and nothing is searched, in place of "
        "`[method]`: the lower bound for a search",
    )
    timeout: float | None = Field(None, gt=0, description="seconds after which the run stops, to be resumed")
    baseline: bool = Field(
        False, description="train your own config (the defaults) to the end too, outside the budget"
    )
    keep: Literal["last", "mean", "exponential", "best"] = Field(
        "last",
        description="which model of the winner's training is kept: the last, the mean or an exponential "
        "average over the last fifth of its rounds, or the best of that fifth by its scores",
    )
    stop: Literal["decided"] | None = Field(
        None,
        description="`decided`: the race of `robust` and `auto` ends when its leader is worse than another "
        "finalist by more than `margin` with a chance of at most 5%, a bound that holds at every look",
    )
    margin: float | None = Field(None, gt=0, lt=1, description="see `stop`; 0.01 if left out")
    horizon: Literal["full", "rung"] = Field(
        "full",
        description="where schedules over rounds end in a trial that is cut short: with the full training, "
        "or with its rung; then it is trained anew, in rounds that count, to go on to the next",
    )


class ProxyBudget(Section):
    """What the search on proxy data may spend, where it differs from `[budget]`."""

    rounds: int | None = Field(None, ge=1, description="rounds of one full training")
    total: int | None = Field(None, ge=1, description="rounds over all trials")
    cohort: int | None = Field(None, ge=1, description="clients in a round")


class Proxy(Section):
    """One-shot proxy search: search on public data that the server holds, then train once at the clients.

    With this section there is no `[method]`; the search has the study's model, space and objective, and
    sees all scores without noise. The server simulates it: it costs no communication.
    """

    data: Data = Field(description="`[proxy.data]`, the public data, dealt to simulated clients")
    method: dict[str, Any] = Field(
        {}, description="`name` and the arguments of the method of the search; random search if left out"
    )
    budget: ProxyBudget = Field(
        default_factory=lambda: ProxyBudget.model_validate({}), description="`[proxy.budget]`"
    )


if TYPE_CHECKING:

    class ObjectiveSection(Section):
        """Made below."""

    class EvaluationSection(Section):
        """Made below."""

    class FederationSection(Section):
        """Made below."""

else:
    ObjectiveSection = section_of(Objective, "Objective")
    EvaluationSection = section_of(Evaluator, "Evaluation")
    FederationSection = section_of(Fleet, "Federation")


class StudyFile(Section):
    """A whole study file."""

    name: str | None = Field(None, min_length=1, description="name of the run; the file's name if left out")
    seed: int = Field(0, ge=0, description="makes the search repeatable")
    device: str = Field(
        "cpu",
        min_length=1,
        description="where local training runs: `cpu`, `cuda`, `mps`, or `auto` for a GPU where there is one",
    )
    objectives: list[str | dict[str, Any]] | None = Field(
        None,
        description="several objectives, in place of `[objective]`: the first is a score such as `accuracy`; "
        "others may be scores (`accuracy_tail`, `loss_worst`, a table with the keys of `[objective]`) or "
        "costs of one training: `bytes_up`, `bytes_down`, `bytes`, `samples`",
    )
    constraints: list[str] = Field(
        [], description="limits that trials must keep, such as `bytes_up <= 1e6` or `accuracy_worst >= 0.5`"
    )
    enqueue: list[dict[str, Any]] = Field(
        [],
        description="`[[enqueue]]`: configs to try right after trial 0, such as `client = { lr = 0.1 }`; "
        "what they leave out is filled in with defaults",
    )
    data: Data = Field(description="`[data]`")
    model: Model = Field(description="`[model]`")
    app: App | None = Field(None, description="`[app]`, in place of `[data]` and `[model]`")
    job: Job | None = Field(None, description="`[job]`, in place of `[data]` and `[model]`")
    space: SpaceSection = Field(description="`[space.client]` and so on")
    budget: Budget = Field(description="`[budget]`")
    client: Client = Field(default_factory=lambda: Client.model_validate({}))
    server: Server = Field(default_factory=lambda: Server.model_validate({}))
    federation: FederationSection | None = Field(
        None, description="`[federation]`: when simulated clients are there, and how fast they are"
    )
    place: dict[str, Any] | None = Field(
        None,
        description="`[place]`: `name` and settings of where parties are asked in a simulation: `process`, "
        "`workers`, `ray`, or `package.module:Name`",
    )
    flower: Flower = Field(default_factory=lambda: Flower.model_validate({}))
    nvflare: NVFlare = Field(default_factory=lambda: NVFlare.model_validate({}))
    objective: ObjectiveSection = Field(default_factory=lambda: ObjectiveSection())
    evaluation: EvaluationSection = Field(default_factory=lambda: EvaluationSection())
    method: dict[str, Any] = Field({}, description="`name` and the arguments of the method; auto if left out")
    proxy: Proxy | None = Field(None, description="`[proxy]`")
