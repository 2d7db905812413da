# %% [markdown]
# # Writing a method
# A method is a class with two functions: `rounds` says what it will spend, `run` tunes. It asks for
# trainings and scores through the `search` that it gets, and knows nothing of clients, files or networks.
# That is why it can be killed and resumed, run over Flower, and be replayed on a table.

# %%
from dataclasses import dataclass
from typing import ClassVar

import fedhpo as fh
from fedhpo.policies import Fixed
from fedhpo.samplers import Random


@dataclass(frozen=True)
class Race(fh.Method):
    """Train `trials` side by side; every `lap` rounds the worst one drops out."""

    trials: int = 8
    lap: int = 3

    name: ClassVar[str] = "race"

    def __post_init__(self):
        super().__post_init__()
        if self.trials < 1 or self.lap < 1:
            raise fh.InputError(f"trials and lap must be at least 1, not {self}")

    def laps(self, search):
        """Until which round, and how many trials then go on."""
        stops = range(self.lap, search.rounds, self.lap)
        return [(stop, max(1, self.trials - done)) for done, stop in enumerate(stops, 1)]

    def rounds(self, search):
        trials, before, planned = self.trials, 0, 0
        for stop, left in [*self.laps(search), (search.rounds, 1)]:
            planned, before, trials = planned + trials * (stop - before), stop, left
        if planned > search.total:
            raise fh.InputError(f"total = {search.total}: race needs {planned} rounds")
        return planned

    def run(self, search):
        running = search.start(self.trials, Random(), Fixed())
        for stop, left in self.laps(search):
            search.train(running, stop)
            search.evaluate(running)
            kept = search.choose(running, left)
            search.eliminate([trial for trial in running if trial not in kept])
            running = kept
        search.train(running, search.rounds)
        search.evaluate(running)
        search.finish(running)
        return search.best(running)


# %% [markdown]
# The fields of the dataclass are its settings, in Python and in a study file (`name = "my_module:Race"`).

# %%
federation = fh.simulate("mlp", fh.load("digits", clients=20), workers=0)
space = fh.Space(
    client={"lr": fh.Float(1e-3, 1.0, log=True, default=0.01), "momentum": fh.Float(0.0, 0.9, default=0.0)}
)
result = fh.tune(federation, space, Race(), rounds=24, total=120, cohort=5)
result

# %%
result.plot.curves()

# %% [markdown]
# ## Is it right?
# A conformance suite knows what every method must do: keep its budget, resume to the same result, cope with
# clients that fail, be the same for any order of keys. Inherit it in a test file and run pytest; here three
# of its tests are called by hand.

# %%
from fedhpo.testing.method import MethodSuite


class TestRace(MethodSuite):
    def method(self):
        return Race(trials=4, lap=2)


tests = [name for name in dir(TestRace) if name.startswith("test_")]
print(len(tests), "tests, such as", *tests[:3], sep="\n  ")

# %% [markdown]
# ## Is it any good?
# Replayed on a table of recorded curves, against halving, over a few seeds: the true error of what was
# chosen.

# %%
from fedhpo.research.tables.replay import replay

table = fh.load_table("mnist")
for name, method in {"race": Race(trials=9, lap=9), "sha": "sha"}.items():
    errors = [100 * replay(table, method, seed=seed).truth for seed in range(8)]
    print(f"{name:5} {sum(errors) / len(errors):5.1f}% error, mean of {len(errors)} seeds")

# %% [markdown]
# Read on: [your own samplers, policies and queries](../../docs/your-own.md), [contracts and
# suites](../../docs/extending.md).
