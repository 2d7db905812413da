"""Models as people have them: named inputs, outputs with logits or a loss, padding, collate functions."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.engine.executor import Job, generators
from fedhpo.protocol.federation import Status, Work

CLASSES, TOKENS = 3, 12


class Bag(nn.Module):
    """The mean of the embeddings of a text's tokens without padding; called as a model of transformers."""

    def __init__(self, own_loss=True):
        super().__init__()
        self.embedding, self.head = nn.Embedding(TOKENS, 5), nn.Linear(5, CLASSES)
        self.own_loss = own_loss

    def forward(self, input_ids, attention_mask=None, labels=None):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        weight = mask.float().unsqueeze(-1)
        logits = self.head((self.embedding(input_ids) * weight).sum(1) / weight.sum(1))
        loss = F.cross_entropy(logits, labels) if labels is not None and self.own_loss else None
        return SimpleNamespace(logits=logits, loss=loss)


class LossOnly(Bag):
    """It tells its loss and nothing else."""

    def forward(self, input_ids, attention_mask=None, labels=None):
        return SimpleNamespace(loss=super().forward(input_ids, attention_mask, labels).loss)


def rows(count, rng, label="labels"):
    """Rows as a tokenised data set has them: of different lengths, which the label depends on."""
    found = []
    for _ in range(count):
        tokens = rng.integers(1, TOKENS, rng.integers(2, 9))
        found.append({"input_ids": tokens.tolist(), label: int(tokens[0] % CLASSES)})
    return found


@pytest.fixture(scope="module")
def ragged():
    rng = np.random.default_rng(0)
    splits = {"train": 20, "validation": 8, "test": 4}
    return [{split: rows(count, rng) for split, count in splits.items()} for _ in range(4)]


def by_hand(model, clients, config, cohort, seed=0):
    """FedAvg of plain SGD over padded batches, written out."""
    federation = fh.simulate(model, fh.from_clients(clients), workers=0)
    federation.start(0, {}, seed)
    first = federation.model(0)
    total, size = {}, sum(len(clients[c]["train"]) for c in cohort)
    for client in cohort:
        own, texts = copy.deepcopy(first).train(), clients[client]["train"]
        optimiser = torch.optim.SGD(own.parameters(), lr=config["lr"])
        rng, _ = generators(Job(client, 0, config, (seed, 0), 0))
        for batch in torch.from_numpy(rng.permutation(len(texts))).split(config["batch_size"]):
            longest = max(len(texts[i]["input_ids"]) for i in batch)
            ids = torch.tensor(
                [t["input_ids"] + [0] * (longest - len(t["input_ids"])) for t in (texts[i] for i in batch)]
            )
            mask = torch.tensor(
                [
                    [1] * len(texts[i]["input_ids"]) + [0] * (longest - len(texts[i]["input_ids"]))
                    for i in batch
                ]
            )
            labels = torch.tensor([texts[i]["labels"] for i in batch])
            optimiser.zero_grad()
            F.cross_entropy(own(ids, mask).logits, labels).backward()
            optimiser.step()
        for name, p in own.named_parameters():
            total[name] = total.get(name, 0) + p.detach() * len(texts) / size
    return total


@pytest.mark.parametrize("model", [Bag, LossOnly, lambda: Bag(own_loss=False)])
def test_ragged_rows_are_padded_by_mask_and_trained(ragged, model):
    config = {"lr": 0.5, "batch_size": 8}
    wanted = by_hand(Bag, ragged, config, [0, 2])
    with fh.simulate(model, fh.from_clients(ragged), workers=0) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 2], config)])
        assert (report.status == Status.OK).all(), report.reasons
        found = dict(federation.model(0).named_parameters())
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)


def test_scores_are_those_of_each_client(ragged):
    """Loss and accuracy of a model with its own loss equal those computed row by row."""
    data = fh.from_clients(ragged)
    with fh.simulate(Bag, data, workers=0) as federation:
        federation.start(0, {}, 0)
        [scores] = federation.evaluate([0], [0, 1, 2, 3])
        model = federation.model(0).eval()
    for client in range(4):
        logits = torch.cat(
            [model(torch.tensor([t["input_ids"]])).logits for t in ragged[client]["validation"]]
        )
        labels = torch.tensor([t["labels"] for t in ragged[client]["validation"]])
        assert scores.loss[client] == pytest.approx(float(F.cross_entropy(logits, labels)), rel=1e-5)
        assert scores.accuracy[client] == pytest.approx(float((logits.argmax(-1) == labels).float().mean()))


def test_results_do_not_depend_on_workers(ragged):
    found = []
    for workers in (0, 2):
        with fh.simulate(Bag, fh.from_clients(ragged), workers=workers) as federation:
            federation.start(0, {}, 0)
            federation.round([Work(0, [0, 1, 2], {"lr": 0.5, "batch_size": 4, "accumulate": 2})])
            found.append(federation.state(0).arrays["weights"])
    assert np.array_equal(*found)


def collate(batch):
    """As the collators of transformers: pads to the longest row of a batch."""
    longest = max(len(row["input_ids"]) for row in batch)
    blank = [longest - len(row["input_ids"]) for row in batch]
    return {
        "input_ids": torch.stack(
            [F.pad(row["input_ids"], (0, n)) for row, n in zip(batch, blank, strict=True)]
        ),
        "attention_mask": torch.stack(
            [F.pad(torch.ones_like(row["input_ids"]), (0, n)) for row, n in zip(batch, blank, strict=True)]
        ),
        "labels": torch.stack([row["labels"] for row in batch]),
    }


def test_a_collate_function_makes_the_batches(ragged):
    config = {"lr": 0.5, "batch_size": 8}
    wanted = by_hand(Bag, ragged, config, [0, 2])
    with fh.simulate(Bag, fh.from_clients(ragged), workers=0, collate=collate) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 2], config)])
        assert (report.status == Status.OK).all(), report.reasons
        found = dict(federation.model(0).named_parameters())
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)


def test_a_collate_function_of_pairs():
    """`default_collate` of pairs is what happens without it."""
    data, found = fh.load("digits", clients=4), []
    for own in (None, torch.utils.data.default_collate):
        with fh.simulate("mlp", data, workers=0, stacking=False, collate=own) as federation:
            federation.start(0, {}, 0)
            federation.round([Work(0, [0, 1], {"lr": 0.1, "optimiser": "adamw"})])
            found.append(federation.state(0).arrays["weights"])
    assert np.array_equal(*found)


def test_tuning_named_rows_end_to_end(ragged):
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True), "optimiser": "adamw"})
    with fh.simulate(Bag, fh.from_clients(ragged), workers=0) as federation:
        result = fh.tune(federation, space, "random", rounds=2, total=4, cohort=2, objective="accuracy")
        assert all(one["status"] == "finished" for one in result.trials)
    with pytest.raises(
        InputError, match="accuracy cannot be computed: the model gives its own loss, and no logits"
    ):
        fh.tune(
            fh.simulate(LossOnly, fh.from_clients(ragged), workers=0),
            space,
            rounds=1,
            total=2,
            objective="accuracy",
        )


def test_a_pair_of_named_arrays_and_labels():
    rng = np.random.default_rng(0)
    x = {"input_ids": rng.integers(1, TOKENS, (10, 4)), "attention_mask": np.ones((10, 4), int)}
    data = fh.from_clients([(x, rng.integers(0, CLASSES, 10)) for _ in range(3)])
    with fh.simulate(Bag, data, workers=0) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1], {"lr": 0.1})])
        assert (report.status == Status.OK).all(), report.reasons


def test_own_training_sees_a_dict(ragged):
    seen = []

    def train(model, data, hyperparameters, context):
        seen.append({name: tuple(tensor.shape) for name, tensor in data.x.items()})
        with torch.no_grad():
            model.head.bias += 1

    with fh.simulate(Bag, fh.from_clients(ragged), workers=0, train=train) as federation:
        federation.start(0, {}, 0)
        federation.round([Work(0, [0], {})])
    assert seen == [{"input_ids": (20, 8), "labels": (20,), "attention_mask": (20, 8)}]


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ([{"input_ids": [1, 2]}], "the rows have no 'labels'"),
        ([{"input_ids": [1], "labels": 0}, {"ids": [1], "labels": 0}], "row 1 has the fields"),
        ([{"input_ids": "text", "labels": 0}], "field 'input_ids' is <U4"),
        (({"input_ids": np.zeros((3, 2))}, np.zeros(2)), "3 rows, 2 labels"),
    ],
)
def test_rows_that_cannot_be_are_refused(client, message):
    with pytest.raises(InputError, match=message):
        fh.from_clients([client])


def test_a_causal_model_of_transformers_trains_on_its_own_loss():
    """It shifts labels itself: the loss is the one that it gives."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        bos_token_id=0,
        eos_token_id=1,
    )

    def model():
        return transformers.LlamaForCausalLM(config)

    rng = np.random.default_rng(0)
    texts = [[rng.integers(2, 16, n).tolist() for n in (5, 7, 6, 9, 4, 8, 5, 6, 7, 8)] for _ in range(2)]
    clients = [[{"input_ids": t, "labels": t} for t in own] for own in texts]
    with fh.simulate(model, fh.from_clients(clients), workers=0) as federation:
        federation.start(0, {}, 0)
        [report] = federation.round([Work(0, [0, 1], {"lr": 0.1, "optimiser": "adamw", "batch_size": 4})])
        assert (report.status == Status.OK).all(), report.reasons
        [scores] = federation.evaluate([0], [0])
        module = federation.model(0).eval()
    held = federation._setup.data.validation.rows(0)
    text = torch.tensor([texts[0][int(held[0])]])
    with torch.no_grad():
        assert scores.loss[0] == pytest.approx(float(module(input_ids=text, labels=text).loss), rel=1e-4)
