"""The one internal of Flower that is needed to send messages without its processes: who sends them."""

from __future__ import annotations

#: What this runtime is called in studies and results.
RUNTIME = "flower"


def assume_identity(run: int, node: int) -> None:
    """Let this process write messages as the server of a run, unless Flower has said who it is."""
    from flwr.supercore.task_identity import TaskIdentity

    if vars(TaskIdentity)["_run_id"] is None:  # the property raises where it is not set
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, node, 0
