"""Callbacks that tell a tracker how a search goes, live: one run a trial, in one group a search.

```python
fh.tune(federation, space, rounds=20, callbacks=[fh.trackers.TensorBoard("logs")])
```
"""

from fedhpo.trackers.mlflow import MLflow
from fedhpo.trackers.tensorboard import TensorBoard
from fedhpo.trackers.tracker import Tracker
from fedhpo.trackers.trackio import Trackio
from fedhpo.trackers.wandb import WandB

__all__ = ["MLflow", "TensorBoard", "Tracker", "Trackio", "WandB"]
