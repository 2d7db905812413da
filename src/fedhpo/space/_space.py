"""`Space`: hyperparameters in scopes, the conditions between them, and the configs it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.notebook import table_as_html
from fedhpo.space import _ends, _form, _grid, _moves
from fedhpo.space._hyperparameter import Hyperparameter
from fedhpo.space.config import SCOPES, Config, Frozen, check_key, frozen_value


@dataclass(frozen=True, slots=True)
class Dimension:
    """A hyperparameter at its place in the unit cube, with its condition ready to be asked."""

    index: int
    name: str
    scope: str
    hyperparameter: Hyperparameter
    condition: tuple[tuple[str, tuple[Any, ...]], ...]

    def active(self, values: Mapping[str, Any]) -> bool:
        """Whether `values`, which hold this one's parents where they are active, make it active."""
        return all(parent in values and values[parent] in allowed for parent, allowed in self.condition)


class Space:
    """Named hyperparameters by scope; a bare value is fixed. Immutable.

    The order is a property of the space: scopes in the order client, server, model, policy, and names in
    alphabetical order in each, in whichever order they are given. Everything that draws or lists (samplers,
    grids, arms, perturbations) goes by it, so that the same space is the same search.

    A fixed value that is itself a list is written `{"value": [32, 16]}`: a bare one may be meant as a range.

    >>> from fedhpo.space import Choice, Float
    >>> space = Space(
    ...     client={"C": Float(0.1, 10, log=True, when={"model.algorithm": "svm"}), "epochs": 1},
    ...     model={"algorithm": Choice(["forest", "svm"])},
    ... )
    >>> space.default()
    Config(client={'epochs': 1}, model={'algorithm': 'forest'})
    >>> space.complete({"model": {"algorithm": "svm"}})
    Config(client={'C': 1.0, 'epochs': 1}, model={'algorithm': 'svm'})
    >>> Space(client={"lr": Float(0, 1), "C": Float(0, 1)}).names
    ('client.C', 'client.lr')

    Attributes:
        names: full names ("client.lr") of the hyperparameters, the order of the unit cube
        hyperparameters: the hyperparameter of each name
        fixed: the fixed values by full name
        plan: the dimensions with every condition's parents before it, otherwise in order
    """

    def __init__(
        self,
        client: Mapping[str, Any] | None = None,
        server: Mapping[str, Any] | None = None,
        model: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        tunable: dict[str, Hyperparameter] = {}
        fixed: dict[str, Any] = {}
        self._places: list[tuple[str, str, str]] = []
        for scope, values in zip(SCOPES, (client, server, model, policy), strict=True):
            if values is not None and not isinstance(values, Mapping):
                raise InputError(f"{scope} must map names to hyperparameters or values, found {values!r}")
            given = values or {}
            for key in given:
                check_key(scope, key)
            for key in sorted(given):
                value = given[key]
                name = f"{scope}.{key}"
                self._places.append((scope, key, name))
                if isinstance(value, Hyperparameter):
                    tunable[name] = value
                else:
                    fixed[name] = frozen_value(name, _form.fixed_value(name, value))
        self.hyperparameters: Mapping[str, Hyperparameter] = Frozen(tunable)
        self.fixed: Mapping[str, Any] = Frozen(fixed)
        self.names: tuple[str, ...] = tuple(tunable)
        self.plan: tuple[Dimension, ...] = _plan(tunable, fixed)

    # What the space is.

    @property
    def dimensions(self) -> int:
        """The length of a vector of the unit cube."""
        return len(self.names)

    @property
    def size(self) -> float:
        """The number of distinct configs; `math.inf` where a continuous hyperparameter can be active.

        >>> from fedhpo.space import Int, Ordinal
        >>> Space(client={"epochs": Int(1, 5), "batch_size": Ordinal([8, 16])}).size
        10
        """
        return _grid.size(self)

    def scope(self, scope: str) -> dict[str, Any]:
        """The hyperparameters and fixed values of one scope, by their short names."""
        _moves.check_scopes((scope,))
        return {
            key: self.hyperparameters[name] if name in self.hyperparameters else self.fixed[name]
            for place, key, name in self._places
            if place == scope
        }

    def subspace(self, scopes: Sequence[str], config: Config | None = None) -> Space:
        """The space of these scopes only.

        The other scopes are absent, or, with a `config`, fixed at its values. A condition on a
        hyperparameter that would be absent needs the config.

        >>> from fedhpo.space import Float
        >>> space = Space(client={"lr": Float(0, 1)}, server={"lr": Float(0, 2)})
        >>> space.subspace(["client"])
        Space(client={'lr': Float(0.0, 1.0)})
        >>> space.subspace(["client"], space.default())
        Space(client={'lr': Float(0.0, 1.0)}, server={'lr': 1.0})
        """
        _moves.check_scopes(scopes)
        if config is not None:
            self.validate(config)
        else:
            self._check_conditions_inside(scopes)
        kept = {
            scope: self.scope(scope) if scope in scopes else dict(getattr(config, scope, {}))
            for scope in SCOPES
        }
        kept = {scope: _form.marked(values) for scope, values in kept.items()}
        if config is not None:
            # What hangs on a hyperparameter that is inactive for good is inactive for good.
            held = {f"{scope}.{key}" for scope, values in kept.items() for key in values}
            for dimension in self.plan:
                parents = [parent for parent, _ in dimension.condition]
                if dimension.scope in scopes and not held.issuperset(parents):
                    held.remove(dimension.name)
                    del kept[dimension.scope][dimension.name.partition(".")[2]]
        return Space(**kept)

    def _check_conditions_inside(self, scopes: Sequence[str]) -> None:
        for dimension in self.plan:
            for parent, _ in dimension.condition:
                if dimension.scope in scopes and parent.partition(".")[0] not in scopes:
                    raise InputError(
                        f"{dimension.name} depends on {parent}, which is in none of the scopes "
                        f"{', '.join(scopes)}: give the config that fixes it"
                    )

    # Configs out of the space.

    def build(self, pick: Callable[[Dimension], Any]) -> Config:
        """The config of a rule: `pick` chooses the value of each active hyperparameter, parents first.

        >>> from fedhpo.space import Float
        >>> Space(client={"lr": Float(0, 1), "epochs": 2}).build(lambda dimension: 0.25)
        Config(client={'epochs': 2, 'lr': 0.25})
        """
        values = dict(self.fixed)
        for dimension in self.plan:
            if not dimension.condition or dimension.active(values):
                values[dimension.name] = pick(dimension)
        scopes: dict[str, dict[str, Any]] = {scope: {} for scope in SCOPES}
        for scope, key, name in self._places:
            if name in values:
                scopes[scope][key] = values[name]
        return Config(**scopes)

    def default(self) -> Config:
        """Explicit defaults; where there is none, the middle of the sampling scale.

        The middle of an `Int` or `Ordinal` is the upper of two; of a `Choice` it is the first option.
        """
        return self.build(lambda dimension: dimension.hyperparameter.default_value())

    def sample(self, rng: np.random.Generator) -> Config:
        """A config from the prior: uniform in each sampling scale, conditions respected."""
        return self.from_unit(rng.random(self.dimensions))

    def grid(self, points: int | Mapping[str, int]) -> Iterator[Config]:
        """All combinations, the first name varying slowest (a condition's parents before it).

        `points` is the number of values of each continuous hyperparameter, spread evenly over its
        sampling scale with both ends (one point: the middle); discrete ones take all their values.
        Or `points` names numbers one by one: then each continuous one must be named, and a
        discrete one that is named takes that many of its values.

        >>> from fedhpo.space import Float, Int
        >>> space = Space(client={"lr": Float(0.01, 1, log=True), "epochs": Int(1, 2)})
        >>> [tuple(config.client.values()) for config in space.grid(3)]
        [(1, 0.01), (1, 0.1), (1, 1.0), (2, 0.01), (2, 0.1), (2, 1.0)]
        """
        return _grid.grid(self, points)

    def complete(self, partial: Mapping[str, Mapping[str, Any]] | Config) -> Config:
        """A user's own config with what it leaves out: defaults of active ones, and fixed values.

        Names may be full ones too.

        >>> from fedhpo.space import Float
        >>> Space(client={"lr": Float(0, 1), "epochs": 1}).complete({"client.lr": 0.25})
        Config(client={'epochs': 1, 'lr': 0.25})
        """
        given = (partial if isinstance(partial, Config) else self._from_names(partial)).flat()
        config = self.build(
            lambda dimension: (
                self._checked(dimension, given[dimension.name])
                if dimension.name in given
                else dimension.hyperparameter.default_value()
            )
        )
        self._refuse_extras(given, config.flat())
        return config

    def _from_names(self, partial: Any) -> Config:
        """A config from scopes, or from full names."""
        if not isinstance(partial, Mapping):
            raise InputError(
                f"a config must be a mapping such as {{'client': {{'lr': 0.1}}}}, found {partial!r}"
            )
        scopes: dict[Any, Any] = {}
        for name, value in partial.items():
            scope, dot, key = name.partition(".") if isinstance(name, str) else (name, "", "")
            if dot and scope in SCOPES:
                if not isinstance(scopes.setdefault(scope, {}), dict):
                    raise InputError(f"{scope} must map names to values, found {scopes[scope]!r}")
                scopes[scope][key] = value
                continue
            owners = [f"{s}.{name}" for s in SCOPES if name not in SCOPES and f"{s}.{name}" in self._all]
            if owners:
                first = owners[0].partition(".")[0]
                raise InputError(
                    f"a config names its scopes: write {{{first!r}: {{{name!r}: {value!r}}}}}, or the full "
                    f"name {' or '.join(map(repr, owners))}, not {name!r}"
                )
            scopes[scope] = {**scopes.get(scope, {}), **value} if isinstance(value, Mapping) else value
        return Config.from_dict(scopes)

    @property
    def _all(self) -> set[str]:
        return {*self.names, *self.fixed}

    # Configs against the space.

    def contains(self, config: Config) -> bool:
        """Whether `validate` would accept the config."""
        try:
            self.validate(config)
        except InputError:
            return False
        return True

    def validate(self, config: Config) -> None:
        """Raise an `InputError` unless the config holds exactly what is active, each value allowed."""
        given = config.flat()

        def check(dimension: Dimension) -> Any:
            if dimension.name not in given:
                raise InputError(f"{dimension.name} is missing; allowed: {dimension.hyperparameter.allowed}")
            return self._checked(dimension, given[dimension.name])

        for name in given:
            self._check_known(name)
        for name, value in self.fixed.items():
            if name not in given:
                raise InputError(f"{name} is missing; it is fixed at {value!r}")
        self._refuse_extras(given, self.build(check).flat())

    def _checked(self, dimension: Dimension, value: Any) -> Any:
        try:
            return dimension.hyperparameter.check(value)
        except InputError as error:
            raise InputError(f"{dimension.name} = {error}") from None

    def _check_known(self, name: str) -> None:
        if name not in self.hyperparameters and name not in self.fixed:
            raise unknown_name("hyperparameter", name, [*self.names, *self.fixed])

    def _refuse_extras(self, given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """What was given must be in `values`, the whole config, which holds the active ones only."""
        for name, value in given.items():
            self._check_known(name)
            if name not in values:
                when = _in_words(self.hyperparameters[name])
                raise InputError(f"{name} = {value!r}: it is not active here, only when {when}")
            if name in self.fixed and value != self.fixed[name]:
                raise InputError(f"{name} = {value!r}: it is fixed at {self.fixed[name]!r}")

    def distance(self, a: Config, b: Config, rho: float = 2.0) -> float:
        """FLoRA's distance on mixed spaces (its appendix C.1, Eq. C.4).

        The rho-norm over real, whole and ordered hyperparameters, each scaled so that its range is
        1 in the sampling scale, plus the number of choices that differ (the shortest path in the
        product of complete graphs). A hyperparameter active in one of the two configs only counts
        like a differing choice, 1; inactive in both, 0; fixed values do not count.

        >>> from fedhpo.space import Choice, Float
        >>> space = Space(client={"lr": Float(0.01, 1, log=True)}, model={"kind": Choice(["a", "b"])})
        >>> a = Config(client={"lr": 0.01}, model={"kind": "a"})
        >>> space.distance(a, Config(client={"lr": 0.1}, model={"kind": "b"}))
        1.5
        """
        return _moves.distance(self, a, b, rho)

    # The unit cube.

    def to_unit(self, config: Config) -> NDArray[np.float64]:
        """The point of the unit cube: one coordinate per hyperparameter, inactive ones at 0.5.

        Coordinates are linear in the sampling scale; a discrete value sits in the centre of its
        cell. The way back, `from_unit`, gives the same config exactly (see `Float` on digits).
        """
        scopes = {scope: getattr(config, scope) for scope in SCOPES}
        unit = np.full(self.dimensions, 0.5)
        for dimension in self.plan:
            scope, _, key = dimension.name.partition(".")
            if key in scopes[scope]:
                try:
                    unit[dimension.index] = dimension.hyperparameter.to_unit(scopes[scope][key])
                except InputError as error:
                    raise InputError(f"{dimension.name} = {error}") from None
        return unit

    def from_unit(self, unit: ArrayLike) -> Config:
        """The config at a point of the unit cube; uniform points give the prior."""
        try:
            point = np.asarray(unit, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"unit must be a list of numbers in [0, 1], found {unit!r}") from None
        if point.shape != (self.dimensions,):
            raise InputError(f"unit must have shape ({self.dimensions},), found {point.shape}")
        coordinates = point.tolist()
        if not all(0.0 <= coordinate <= 1.0 for coordinate in coordinates):
            raise InputError(f"unit must lie in [0, 1], found {coordinates}")
        return self.build(lambda dimension: dimension.hyperparameter.from_unit(coordinates[dimension.index]))

    # Moves.

    def ball(
        self, config: Config, eps: float, rng: np.random.Generator, scopes: Sequence[str] = ("client",)
    ) -> Config:
        """A draw from the ball around a config (FedEx's arms, FedPop's client vectors).

        In each coordinate of `scopes` the centre +- U(eps x range) in the sampling scale, clipped to
        the box; whole numbers and ordered lists move by at most ceil(eps x (values - 1)) steps; a
        choice is drawn anew with probability eps. What becomes active is drawn from its prior.

        >>> from fedhpo.space import Float
        >>> space = Space(client={"lr": Float(1e-4, 1, log=True)})
        >>> rng = np.random.default_rng(0)
        >>> 0.0316 <= min(space.ball(space.default(), 0.1, rng).client["lr"] * 10 for _ in range(50))
        True
        """
        return _moves.ball(self, config, eps, rng, scopes)

    def clip_to_ball(
        self,
        config: Config,
        centre: Config,
        radius: float,
        scopes: Sequence[str] = ("client",),
        norm: str = "box",
    ) -> Config:
        """The config pulled back into the ball around a centre.

        With norm "box" each coordinate of `scopes` is clipped to half-width radius x range in the
        sampling scale (discrete ones to ceil(radius x (values - 1)) steps). With "euclidean" the
        difference, each range scaled to 1, is shortened to length `radius`, discrete coordinates
        rounded toward the centre. Choices stay. What becomes active takes the centre's value, or
        its default if the centre has none; what the centre does not have is not clipped.
        """
        return _moves.clip_to_ball(self, config, centre, radius, scopes, norm)

    def perturb(
        self,
        config: Config,
        eps: float,
        resample: float,
        rng: np.random.Generator,
        scopes: Sequence[str] = ("client", "server"),
        by: str = "coordinate",
        within: tuple[Config, float] | None = None,
    ) -> Config:
        """FedPop's evolutionary update, Evo (Eq. 3), clipped to the box.

        In each coordinate of `scopes`: with probability `resample` a draw from the prior; otherwise
        a continuous one moves to U(h - d, h + d), d = eps x range in the sampling scale; a discrete
        one stays or goes to a neighbour max(1, floor(eps x values)) steps down or up, each of the
        three equally likely (with eps = 0 it stays); a choice, which has no neighbours, is drawn anew
        with probability eps. What becomes active is drawn from its prior.

        With `by` = "vector" one coin decides for all coordinates of a scope. `within` is a centre and a
        radius: then draws come from the box of that half-width around the centre, as those of `ball`.
        """
        return _moves.perturb(self, config, eps, resample, rng, scopes, by, within)

    # Text.

    @classmethod
    def suggested(cls, *names: str, without: Sequence[str] = (), **scopes: Mapping[str, Any]) -> Space:
        """The ranges that publications took, by name: "sgd", "adamw", "lora", "xgboost" and others.

        Several names are put together. Hyperparameters that are given by scope replace those suggested;
        `without` leaves some out, by full name.

        >>> from fedhpo.space import Float
        >>> space = Space.suggested("adamw", "fedprox", client={"lr": Float(1e-3, 1e-1, log=True)})
        >>> space.names, space.hyperparameters["client.lr"].high
        (('client.lr', 'client.prox', 'client.weight_decay'), 0.1)
        """
        from fedhpo.space.suggested import suggested

        found = suggested(names)
        for scope, given in scopes.items():
            _moves.check_scopes((scope,))
            found[scope] = {**found.get(scope, {}), **given}
        known = [f"{scope}.{key}" for scope, table in found.items() for key in table]
        for name in [without] if isinstance(without, str) else without:
            if name not in known:
                raise InputError(f"without: {unknown_name('hyperparameter', name, known)}")
            scope, _, key = name.partition(".")
            del found[scope][key]
        return cls(**found)

    def at_bounds(self, config: Config) -> list[str]:
        """What to say of values that lie at an end of their ranges, where the best may lie beyond.

        A value lies there in the last fiftieth of its range, in the sampling scale. Not mentioned: a lower
        end at 0, or at 1 of a whole number, which is a limit of most; one of two values; unordered choices.

        >>> from fedhpo.space import Float
        >>> space = Space(client={"lr": Float(1e-3, 1.0, log=True), "momentum": Float(0.0, 0.9)})
        >>> space.at_bounds(space.complete({"client": {"lr": 0.95, "momentum": 0.0}}))
        ['client.lr = 0.95 lies at the upper end of its range (0.001 to 1): a wider one may hold a better \
value']
        """
        return _ends.at_bounds(self.hyperparameters, config.flat())

    @classmethod
    def from_dict(cls, data: Mapping[str, Mapping[str, Any]], path: str = "space") -> Space:
        """A space from the tables of a study file; `path` leads the names in error messages.

        A table is a hyperparameter, a bare value is fixed:

        | table | meaning |
        | --- | --- |
        | `{ low = 1e-4, high = 1.0, log = true }` | `Float` |
        | `{ low = 0.99, high = 0.9999, log = true, complement = true }` | `Float`: the log is of 1 - value |
        | `{ low = 1, high = 5 }` | `Int`: both are written as whole numbers |
        | `{ choices = [8, 16, 32] }` | `Ordinal`: numbers in increasing order |
        | `{ choices = ["svm", "mlp"] }` | `Choice`: anything else |
        | `{ values = ["small", "large"] }` | `Ordinal`, as `values` are always ordered |
        | `{ values = [0.002, 0.004, 0.8], log = true }` | `Ordinal` whose logarithm a model sees |
        | `{ value = [32, 16] }` | fixed, for a value that is itself a list |

        Each may have `default` and `when`, and a `type` ("float", "int", "choice" or "ordinal") that
        decides instead of these rules.

        >>> Space.from_dict({"client": {"lr": {"low": 1e-4, "high": 1.0, "log": True}, "epochs": 1}})
        Space(client={'epochs': 1, 'lr': Float(0.0001, 1.0, log=True)})
        """
        scopes = _form.read(data, path)
        try:
            return cls(**scopes)
        except InputError as error:  # what concerns several hyperparameters names these alone
            raise InputError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The tables that `from_dict` reads, as plain JSON values, with every `type` spelled out."""
        return _form.write({scope: self.scope(scope) for scope in SCOPES})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.names, self.hyperparameters, self.fixed

    def __str__(self) -> str:
        tuned = [f"{name}: {one!r}" for name, one in self.hyperparameters.items()]
        return "\n".join([*tuned, *(f"{name}: {value!r}, fixed" for name, value in self.fixed.items())])

    def _repr_html_(self) -> str:
        rows: list[Sequence[Any]] = [
            (name, repr(one), one.default_value()) for name, one in self.hyperparameters.items()
        ]
        rows += [(name, "fixed", value) for name, value in self.fixed.items()]
        return table_as_html(["hyperparameter", "values", "your own"], rows, len(rows))

    def __repr__(self) -> str:
        scopes = ((scope, _form.marked(self.scope(scope))) for scope in SCOPES)
        return f"Space({', '.join(f'{scope}={values!r}' for scope, values in scopes if values)})"


def _plan(tunable: Mapping[str, Hyperparameter], fixed: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """Parents before children, otherwise in order; the conditions are checked on the way."""
    plan: dict[str, Dimension] = {}
    indices = {name: index for index, name in enumerate(tunable)}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in plan or name in fixed:
            return
        if name in path:
            raise InputError(f"conditions form a circle: {' -> '.join((*path[path.index(name) :], name))}")
        hyperparameter = tunable[name]
        for parent, allowed in hyperparameter.when.items():
            if parent not in tunable and parent not in fixed:
                raise InputError(
                    f"{name}: when: {unknown_name('hyperparameter', parent, [*tunable, *fixed])}"
                )
            for value in allowed if parent in tunable else ():
                try:
                    tunable[parent].check(value)
                except InputError as error:
                    raise InputError(f"{name}: when {parent} = {error}") from None
            visit(parent, (*path, name))
        scope = name.partition(".")[0]
        plan[name] = Dimension(indices[name], name, scope, hyperparameter, tuple(hyperparameter.when.items()))

    for name in tunable:
        visit(name, ())
    return tuple(plan.values())


def _in_words(hyperparameter: Hyperparameter) -> str:
    """Its condition, for messages."""
    return " and ".join(
        f"{parent} is {' or '.join(map(repr, allowed))}" for parent, allowed in hyperparameter.when.items()
    )
