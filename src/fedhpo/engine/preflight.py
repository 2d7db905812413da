"""Before round 1: one forward pass, loss, backward pass and score of one batch of one client.

All of it in this process, on one thread and on the device of the workers, whose training it then equals. What
would fail at every client is refused here with what to write instead; what is doubtful is a warning. Random
generators are put back, and nothing is charged or recorded: results are the same with and without it.
"""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedhpo.core.hyperparameters import parse
from fedhpo.core.streams import other_generators, torch_generator
from fedhpo.core.user_code import in_words
from fedhpo.data import FederatedData, Split
from fedhpo.engine import flat
from fedhpo.engine.advice import forward_advice, loss_advice, output_advice, refused, shape_of
from fedhpo.engine.context import call_training
from fedhpo.engine.device import generator_kept, seed_generators
from fedhpo.engine.executor import Executor, Job, Setup, TrainTask, generators
from fedhpo.engine.flat import FlatModel
from fedhpo.engine.hyperparameters import Local
from fedhpo.engine.labels import check_labels
from fedhpo.engine.loss import mean_loss, sample_sums
from fedhpo.engine.outputs import Answer, Batch, collated, forward
from fedhpo.engine.score import score
from fedhpo.engine.task import PreflightError, check_task
from fedhpo.engine.view import ClientView

#: Rows of the batch, if the config says nothing or more.
_ROWS = 32
#: Clients that are tried if the first one fails: what fails at one of them only is its own affair.
_CLIENTS = 3


class PreflightWarning(UserWarning):
    """Training will run, but probably not as it was meant."""


def preflight(setup: Setup, model: Mapping[str, Any], client: Mapping[str, Any], metric: str) -> None:
    """Refuse what cannot be trained or scored, with a `PreflightError`; warn of what is doubtful."""
    check_task(setup.data, metric)
    if setup.train is None:
        size = parse(Local, "client", client).batch_size
    else:
        _check_signature(setup.train)
        size = client.get("batch_size", _ROWS)
    rows = min(size, _ROWS) if isinstance(size, int) and size > 0 else _ROWS
    with _as_in_a_worker(setup.device):
        problems: list[tuple[int, PreflightError]] = []
        for number in _some_clients(setup.data):
            try:
                noted = _Trial(setup, model, client, metric, number, rows).run()
                break
            except PreflightError as problem:
                problems.append((number, problem))
        else:
            raise problems[0][1]
    for number, found in problems:
        noted.append(f"client {setup.data.client_name(number)} fails, another does not: {found}")
    for text in noted:
        warnings.warn_explicit(f"preflight: {text}", PreflightWarning, "fedhpo", 0, "fedhpo", registry={})


def _check_signature(train: Any) -> None:
    try:
        inspect.signature(train).bind(None, None, None, None)
    except TypeError as error:
        raise refused(
            f"train does not take the four arguments it is called with: {error}",
            "def train(model, data, hyperparameters, context)",
        ) from None
    except ValueError:  # a builtin without a signature
        pass


def _some_clients(data: FederatedData) -> list[int]:
    """The first client, one from the middle, the last."""
    able = data.train_clients
    places = np.linspace(0, len(able) - 1, min(_CLIENTS, len(able))).astype(int)
    return [int(able[place]) for place in places]


@contextlib.contextmanager
def _as_in_a_worker(device: str) -> Iterator[None]:
    """One thread; all random generators as they were afterwards."""
    with torch_generator(), generator_kept(device), other_generators():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            seed_generators(0, device)
            yield
        finally:
            torch.set_num_threads(threads)


@dataclass
class _Trial:
    """The model meets a batch of one client."""

    setup: Setup
    model: Mapping[str, Any]
    client: Mapping[str, Any]
    metric: str
    number: int
    rows: int

    def run(self) -> list[str]:
        """Warnings; raises for the first thing that is wrong."""
        data = self.setup.data
        rows = data.train.rows(self.number)[: self.rows]
        holder = self.number if len(data.validation.rows(self.number)) else _first(data.validation)
        held = data.validation.rows(holder)[: self.rows] if holder is not None else rows
        self.executor = executor = Executor(replace(self.setup, data=_only(data, self.number, rows, held)))
        self.flat, self.channels_last = self._built(executor)
        x, y = executor.view.gather(rows)
        x, y = collated(self.setup.collate, x, y)
        self.x = x.contiguous(memory_format=torch.channels_last) if self.channels_last else x
        self.y = y
        output = self._forward()
        self._check_output(output)
        check_labels(data, output, self.setup.loss, self.metric)
        noted = self._own_training() if self.setup.train is not None else self._loss_and_gradients(output)
        self._check_extremes()
        self._check_score(held)
        self._check_whole_training()
        return noted

    def _built(self, executor: Executor) -> tuple[FlatModel, bool]:
        try:
            built = executor.model(flat.shape_key(self.model))
        except Exception as error:
            raise refused(
                f"the model cannot be built with {dict(self.model)} on device {self.setup.device!r}",
                "a class or function that takes the space's model hyperparameters as keywords and returns a "
                "torch.nn.Module of float32",
                error,
            ) from error
        if not built.model.parameters and self.setup.train is None:
            raise refused(
                "the model has no parameter that is trained: all are frozen (requires_grad=False), or there "
                "are none",
                "layers as attributes of the module (self.layer = nn.Linear(...)), some of them not frozen",
            )
        return built.model, built.channels_last

    def _forward(self) -> Any:
        module = self.flat.module
        module.train(self.setup.train is None)
        try:
            return forward(module, self.x)
        except Exception as error:
            raise self._refused(error, self.x) from error

    def _refused(self, error: Exception, x: Any) -> PreflightError:
        """The forward pass raised."""
        data = self.setup.data
        few = not data.is_lazy and data.x.size <= _MOST
        tokens = (int(data.x.min()), int(data.x.max())) if data.is_tokens and few else None
        instead = (
            "a forward that takes these names" if isinstance(x, Batch) else forward_advice(error, x, tokens)
        )
        what = "the model does not take a batch of the data" if instead else "the model's forward raises"
        shape = (
            f"x is {x.shape}" if isinstance(x, Batch) else f"x has shape {tuple(x.shape)}, {str(x.dtype)[6:]}"
        )
        return refused(f"{what}: {shape}", instead, error, self.flat.module)

    def _check_output(self, output: Any) -> None:
        """Is it one tensor, with a row for each row of the batch, as the task needs it?"""
        if isinstance(output, Answer):
            self._check_answer(output)
            return
        by_loss_alone = self.setup.loss is not None and self.y.is_floating_point()
        if not isinstance(output, Tensor):
            if not by_loss_alone:  # a loss of the user's own may take anything
                raise refused(f"the model returns {shape_of(output)}, not a tensor", output_advice(output))
            return
        count, shape = len(self.y), tuple(output.shape)
        if self.y.is_floating_point():
            if self.setup.loss is None and output.numel() != self.y.numel():
                raise refused(
                    f"the model's output has the wrong size: {shape} for {count} rows with float targets, "
                    "which are regression: one number per row is needed",
                    "a last layer with one output, nn.Linear(..., 1); or, if the targets are classes, "
                    "y.astype('int64')",
                )
            return
        wanted = "(rows, classes)" if self.y.ndim == 1 else "(rows, positions, classes)"
        one_by_one = self.setup.loss is not None and output.ndim == self.y.ndim and self.metric == "loss"
        if one_by_one:
            return
        if output.ndim != self.y.ndim + 1 or output.shape[: self.y.ndim] != self.y.shape:
            raise refused(
                f"the model's output has the wrong shape: {shape} for {count} rows; {wanted} is needed, a "
                "score of each class",
                f"a forward that returns {wanted}, here ({', '.join(map(str, self.y.shape))}, "
                f"{self.setup.data.classes})",
            )

    def _check_answer(self, output: Answer) -> None:
        """A model that gives its own loss: one number for the batch."""
        if output.loss is not None and output.loss.numel() != 1:
            raise refused(
                f"the model's own loss has shape {tuple(output.loss.shape)}, not one number for the batch",
                "the mean over the batch as .loss",
            )
        if self.metric in ("accuracy", "error") and (output.logits is None or self.y.ndim != 1):
            raise refused(
                f"{self.metric} cannot be computed: the model gives its own loss, and "
                + (
                    "no logits"
                    if output.logits is None
                    else "where its labels stand by token is its own affair"
                ),
                "objective='loss'",
            )

    def _check_extremes(self) -> None:
        """The rows with the smallest and largest labels and tokens, whoever holds them."""
        rows = _extremes(self.setup.data)
        x, y = self.executor.view.gather(rows)
        module = self.flat.module.eval()
        try:
            with torch.no_grad():
                x, y = collated(self.setup.collate, x, y)
                output = forward(
                    module, x.contiguous(memory_format=torch.channels_last) if self.channels_last else x
                )
        except Exception as error:
            raise self._refused(error, x) from error
        if self.setup.train is None:
            self._loss(output, y)

    def _loss(self, output: Any, y: Tensor) -> Tensor:
        """The loss that training descends; a loss of the user's own is looked at more closely."""
        loss = self.setup.loss
        try:
            if loss is not None:
                self._check_loss(loss, output, y)
            return mean_loss(output, y, loss)
        except PreflightError:
            raise
        except Exception as error:
            what = "the loss" if loss is None else "your loss"
            raise refused(
                f"{what} fails for the model's output, {shape_of(output)}, and targets {tuple(y.shape)}, "
                f"{str(y.dtype)[6:]}",
                loss_advice(loss) if loss is not None else "",
                error,
            ) from error

    def _check_loss(self, loss: Any, output: Any, y: Tensor) -> None:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            losses = loss(output, y)
        if not isinstance(losses, Tensor) or losses.ndim == 0:
            found = "one number for the whole batch" if isinstance(losses, Tensor) else shape_of(losses)
            raise refused(f"loss gives {found}, not one loss per row", loss_advice(loss))
        if losses.shape[0] != len(y):
            raise refused(f"loss gives {shape_of(losses)} for {len(y)} rows", loss_advice(loss))
        spread = [str(one.message) for one in said if "target size" in str(one.message)]
        if spread:  # torch only warns, and compares every output with every target
            raise refused(
                f"loss compares output {tuple(output.shape)} with targets {tuple(y.shape)}, all with all: "
                f"{spread[0].split('. ')[0]}",
                "loss=lambda output, target: nn.functional.mse_loss(output.flatten(), target.float(), "
                "reduction='none'), or the like",
            )

    def _loss_and_gradients(self, output: Any) -> list[str]:
        value = self._loss(output, self.y)
        module, named = self.flat.module, self.flat.trainable
        try:
            gradients = torch.autograd.grad(value, list(named.values()), allow_unused=True)
        except Exception as error:
            raise refused(
                "no gradient can be computed from the loss",
                "forward and loss without torch.no_grad(), .detach(), .item(), argmax or numpy on the way "
                "from the parameters to the loss, and without changing tensors in place",
                error,
                module,
            ) from error
        pairs = dict(zip(named, gradients, strict=True))
        sparse = [name for name, g in pairs.items() if g is not None and g.is_sparse]
        if sparse:
            raise refused(
                f"the gradient of {sparse[0]} is sparse, which local training does not take",
                "nn.Embedding(..., sparse=False)",
            )
        unused = [name for name, g in pairs.items() if g is None]
        if len(unused) == len(pairs):
            raise refused(
                "the loss depends on no parameter of the model: nothing would be trained",
                "a forward that uses the module's own layers, without .detach() or torch.no_grad()",
            )
        noted = []
        if unused:
            noted.append(
                f"{_listed(unused)} got no gradient from the first batch: forward does not use it, or "
                "detaches it, and it will not be trained; if that is meant, freeze it: "
                "parameter.requires_grad_(False)"
            )
        if not torch.isfinite(value):
            noted.append(
                f"the loss of the first batch is {float(value.detach())} before any training: look at the "
                "scale of x and of the model's first weights"
            )
        elif not all(bool(torch.isfinite(g).all()) for g in gradients if g is not None):
            noted.append("the gradients of the first batch are not finite before any training")
        return noted + self._last_batches()

    def _last_batches(self) -> list[str]:
        """Clients whose last batch has one row, where the model cannot train on one."""
        size = parse(Local, "client", self.client).batch_size
        sizes = self.setup.data.train.sizes[self.setup.data.train_clients]
        alone = int(((sizes % size == 1) | ((size == 1) & (sizes > 0))).sum())
        if not alone:
            return []
        try:
            with torch.no_grad():
                forward(self.flat.module.train(), self.x[:1])
        except Exception as error:
            text = (
                f"with batch_size = {size} the last batch of {alone} of {len(sizes)} training clients has "
                f"one row, on which the model cannot train: {in_words(error)}"
            )
            if alone == len(sizes):
                raise refused(text, forward_advice(error, self.x), module=self.flat.module) from error
            return [f"{text}; write instead: {forward_advice(error, self.x)}"]
        return []

    def _own_training(self) -> list[str]:
        """The user's own training function, on the batch."""
        assert self.setup.train is not None
        module, before = self.flat.module.train(), self.flat.vector()
        job = Job(self.number, 0, self.client, (0, 0), 0)
        try:
            returned = call_training(
                self.setup.train,
                module,
                ClientView.of(self.number, self.x.clone(), self.y.clone()),
                self.client,
                job.context(generators(job)[1], self.setup.device),
            )
        except (Exception, SystemExit) as error:
            instead = ""
            if isinstance(error, KeyError) and error.args and error.args[0] not in self.client:
                names = ", ".join(map(repr, self.client)) or "none"
                instead = f"hyperparameters that the space has in scope client: {names}"
            elif isinstance(error, AttributeError) and isinstance(error.obj, torch.Generator):
                instead = "def train(model, data, hyperparameters, context): the name of the last one decides"
            raise refused(
                f"train raises for client {self.number}, given {len(self.y)} of its rows",
                instead,
                error,
                module,
            ) from error
        try:
            self.flat.check_frozen()
        except flat.FrozenChanged as error:
            raise PreflightError(str(error)) from None
        after = self.flat.vector()
        if np.array_equal(before, after):
            also = "" if returned is None else f" (it returned {type(returned).__name__}, which is not used)"
            return [f"train left the model as it was{also}: it must change the given module in place"]
        return [] if flat.finite(after) else ["train left weights that are not finite"]

    def _check_score(self, held: NDArray[np.int64]) -> None:
        module = self.flat.module
        try:
            values = score(
                module,
                self.executor.view,
                [held],
                self.setup.loss,
                self.channels_last,
                collate=self.setup.collate,
            )
            with torch.inference_mode():
                x, y = collated(self.setup.collate, *self.executor.view.gather(held[:2]))
                sample_sums(forward(module, x), y, self.setup.loss)
        except Exception as error:
            raise refused(
                "the model trains on a batch, but scoring it fails (in eval mode, without gradients)",
                "a forward that also works after module.eval(), in torch.inference_mode()",
                error,
                module,
            ) from error
        if self.metric in ("accuracy", "error") and np.isnan(values.accuracy).all():
            raise refused(f"the model's {self.metric} is not a number", "objective='loss'")

    def _check_whole_training(self) -> None:
        """The batch through the executor itself, as a worker does it."""
        vector = self.flat.vector()
        if not flat.finite(vector) or self.setup.train is not None:
            return
        short = {name: 1 for name in ("epochs", "max_steps") if name in self.client}
        job = Job(self.number, 0, {**self.client, **short}, (0, 0), 0, rounds=1)
        task = TrainTask(flat.shape_key(self.model), (job,), ("before", "after"))
        [result] = self.executor.run(task, [vector], None)
        if result.failure:
            raise refused(f"local training fails: {result.failure}", "")


def _only(
    data: FederatedData, client: int, rows: NDArray[np.int64], held: NDArray[np.int64]
) -> FederatedData:
    """The data of which one client holds these rows, and the others none."""

    def split(chosen: NDArray[np.int64]) -> Split:
        sizes = np.zeros(data.clients, np.int64)
        sizes[client] = len(chosen)
        return Split.from_sizes(chosen, sizes)

    return replace(data, train=split(rows), validation=split(held), test=split(rows[:0]))


def _first(split: Split) -> int | None:
    holders = np.flatnonzero(split.sizes)
    return int(holders[0]) if len(holders) else None


def _extremes(data: FederatedData) -> NDArray[np.int64]:
    """The rows with the smallest and the largest label, and token."""
    owned = data.looked_at
    found = [owned[0]]
    for values in (data.y, data.x) if data.is_tokens else (data.y,):
        if len(owned) * int(np.prod(values.shape[1:])) > _MOST:
            continue
        flat_rows = values[owned].reshape(len(owned), -1)
        found += [owned[int(flat_rows.max(1).argmax())], owned[int(flat_rows.min(1).argmin())]]
    return np.unique(np.array(found, np.int64))


#: Labels or tokens that are looked at; data with more is looked at in its first batch only.
_MOST = 20_000_000


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
