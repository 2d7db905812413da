"""What a world is made of: the set, the model, the clients, and how much is searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedhpo.methods.fedtune import Cells
from fedhpo.methods.fedtune.mixture import Budget
from fedhpo.space import Float, Ordinal, Space


@dataclass(frozen=True)
class WorldSetting:
    """One data set; `own` are the paper's learning rate and batch size (its Table 3)."""

    data: str
    own: tuple[float, int]
    components: int = 48
    hidden: int = 32
    clients: int = 24
    cohort: int = 5
    rounds: int = 60
    proxy: int = 3000
    held_out: int = 600
    test: int = 2000
    indices: tuple[float, ...] = (0.2, 0.5, 0.8)
    quantities: tuple[int, ...] = (50, 200)
    steps: int = 18
    deals: int = 2
    side_by_side: int = 6
    simulated_rounds: int = 30
    cell_steps: int = 16
    cell_rounds: int = 10
    #: Rates of the grid whose best table and best constant, both picked on test, are the headroom.
    rates: tuple[float, ...] = (0.025, 0.05, 0.1, 0.2, 0.4)
    slopes: tuple[float, ...] = (-2.0,)
    headroom_config: tuple[int, int] = (8, 2)
    #: "mlp" on components, or an image model of `fedhpo.models`.
    model: str = "mlp"

    @property
    def cells(self) -> Cells:
        """The table's cells, which are also the profiles that clients have."""
        return Cells(self.indices, self.quantities)

    @property
    def last(self) -> int:
        """Accuracy is the mean over so many of the last rounds."""
        return max(1, self.rounds // 4)

    @property
    def shape(self) -> dict[str, Any]:
        """Of the model."""
        return {"hidden": self.hidden} if self.model == "mlp" else {"width": 8, "hidden": self.hidden}

    @property
    def space(self) -> Space:
        """The paper's ranges, the rate on a log scale."""
        rate, batch = self.own
        return Space(
            client={
                "lr": Float(0.002, 0.8, log=True, default=rate),
                "batch_size": Ordinal([4, 8, 16], default=batch),
                "epochs": Ordinal([1, 2, 4], default=2),
            },
            model=self.shape,
        )

    @property
    def listed(self) -> Space:
        """The paper's own space: rates at equal steps. The process sees their logarithm."""
        rates = Ordinal([round(0.002 * k, 3) for k in range(1, 401)], log=True, default=self.own[0])
        return Space(
            client={**self.space.scope("client"), "lr": rates},
            model=self.shape,
        )

    @property
    def budget(self) -> Budget:
        """Of a search in the mixture."""
        return Budget(
            self.steps,
            self.deals,
            self.clients,
            self.cohort,
            self.simulated_rounds,
            side_by_side=self.side_by_side,
        )

    @property
    def words(self) -> str:
        """What is run, for the page."""
        inputs = f"{self.components} principal components, MLP" if self.model == "mlp" else self.model
        return (
            f"{inputs}, hidden {self.hidden}; {self.clients} clients, {self.cohort} a round, {self.rounds} "
            f"rounds, accuracy over the last {self.last}; {len(self.cells)} cells; {self.proxy} proxy rows, "
            f"{self.held_out} of them held out; {self.test} test rows; searches in the mixture: {self.steps} "
            f"candidates x {self.deals} deals x {self.simulated_rounds} rounds, scored over the last "
            f"{self.budget.scored_rounds}; in cells: {self.cell_steps} x {self.cell_rounds} rounds each"
        )
