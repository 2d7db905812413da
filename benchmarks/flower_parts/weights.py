"""Tiny models in the place of those that the examples load from the hub, and packages that are too heavy."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from flower_parts.data import install


def module(name: str, **members: Any) -> ModuleType:
    """A module of this name, and those above it, with these members."""
    above, _, last = name.rpartition(".")
    found = sys.modules.get(name) or ModuleType(name)
    found.__path__ = []  # type: ignore[attr-defined]
    for key, value in members.items():
        setattr(found, key, value)
    sys.modules[name] = found
    if above:
        setattr(module(above), last, found)
    return found


def tokenizer() -> Any:
    """A tokenizer of bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {letter: place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for special in ("<s>", "</s>", "<unk>", "[PAD]"):
        letters[special] = len(letters)
    made = Tokenizer(models.BPE(letters, [], unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="</s>", bos_token="<s>", unk_token="<unk>", pad_token="[PAD]"
    )


def llm() -> None:
    """FlowerTune's apps: a Llama of two layers, a byte tokenizer, and a trainer of AdamW steps."""
    install()
    import torch
    import transformers

    def model(*arguments: Any, **options: Any) -> Any:
        config = transformers.LlamaConfig(
            vocab_size=300,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=512,
        )
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return transformers.LlamaForCausalLM(config)

    transformers.AutoModelForCausalLM.from_pretrained = model
    transformers.AutoTokenizer.from_pretrained = lambda *arguments, **options: tokenizer()
    transformers.BitsAndBytesConfig = lambda **options: None
    transformers.TrainingArguments = _Arguments
    module("trl", SFTTrainer=_Trainer, DataCollatorForCompletionOnlyLM=lambda *one, **two: None)


class _Arguments:
    """What an app writes into `TrainingArguments`."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


class _Result:
    def __init__(self, loss: float) -> None:
        self.training_loss = loss


class _Trainer:
    """AdamW steps on texts, with the arguments of trl 0.8, which the apps pin."""

    def __init__(self, model: Any, args: Any, train_dataset: Any, **options: Any) -> None:
        self.model, self.args, self.rows = model, args, train_dataset
        self.tokenizer, self.format = options["tokenizer"], options["formatting_func"]
        self.length = options["max_seq_length"]

    def train(self) -> _Result:
        """`max_steps` steps; the mean loss of all of them."""
        import torch

        weights = [one for one in self.model.parameters() if one.requires_grad]
        optimiser = torch.optim.AdamW(weights, lr=float(self.args.learning_rate))
        texts = self.format(self.rows[:])
        size, losses = int(self.args.per_device_train_batch_size), []
        self.model.train()
        for _ in range(int(self.args.max_steps)):
            chosen = torch.randint(len(texts), (size,)).tolist()
            batch = self.tokenizer(
                [texts[place] for place in chosen],
                return_tensors="pt",
                padding=True,
                truncation=True,
                max_length=min(int(self.length), 96),
            )
            labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
            loss = self.model(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels
            ).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
        return _Result(sum(losses) / len(losses))


def huggingface() -> None:
    """quickstart-huggingface: a BERT of one layer, and accuracy without the hub."""
    install()
    import transformers

    def model(*arguments: Any, **options: Any) -> Any:
        config = transformers.BertConfig(
            vocab_size=300,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=options.get("num_labels", 2),
        )
        return transformers.BertForSequenceClassification(config)

    class Accuracy:
        def __init__(self) -> None:
            self.right = self.all = 0

        def add_batch(self, predictions: Any, references: Any) -> None:
            self.right += int((predictions == references).sum())
            self.all += len(references)

        def compute(self) -> dict[str, float]:
            return {"accuracy": self.right / self.all}

    module("evaluate", load=lambda name: Accuracy())
    transformers.AutoModelForSequenceClassification.from_pretrained = model
    transformers.AutoTokenizer.from_pretrained = lambda *arguments, **options: tokenizer()


def vit() -> None:
    """flowertune-vit: a vision transformer of one layer."""
    install()
    import torchvision.models as models
    from torchvision.models.vision_transformer import VisionTransformer

    def small(weights: Any = None) -> Any:
        return VisionTransformer(224, 56, 1, 2, 16, 32, num_classes=1000)

    models.vit_b_16 = small


def whisper() -> None:
    """whisper: an encoder of one layer, and clients whose clips are noise around a mean of their class."""
    install()
    import numpy as np
    import torch
    import transformers

    class Encoder(torch.nn.Module):
        def forward(self, data: Any) -> Any:
            mean = data.float().mean(dim=(1, 2))[:, None, None]
            return (mean.expand(-1, 1500, 384) + torch.zeros(1),)

    class Whisper:
        @classmethod
        def from_pretrained(cls, name: str) -> Any:
            return cls()

        def get_encoder(self) -> Any:
            return Encoder()

    transformers.WhisperForConditionalGeneration = Whisper
    transformers.WhisperProcessor = type(
        "Processor", (), {"from_pretrained": classmethod(lambda cls, name: None)}
    )
    import time

    time.sleep = lambda seconds, real=time.sleep: real(min(seconds, 0.01))  # the app sleeps at its import
    from whisper_example import dataset

    class Clips(torch.utils.data.Dataset):
        def __init__(self, seed: int) -> None:
            rng = np.random.default_rng(seed)
            self.targets = rng.integers(0, 12, 24)
            self.data = torch.tensor(
                rng.normal(self.targets[:, None, None], 1, (24, 4, 4)), dtype=torch.float32
            )

        def __len__(self) -> int:
            return len(self.targets)

        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, str):
                return getattr(self, key)
            return {"data": self.data[key], "targets": torch.tensor(int(self.targets[key]))}

        def with_format(self, *arguments: Any, **options: Any) -> Any:
            return self

    dataset.load_data = lambda partition_id, remove_cols: Clips(partition_id)


def monai() -> None:
    """quickstart-monai: a small DenseNet, and images of our own."""
    install()
    import numpy as np
    import torch
    from monai.networks.nets import densenet
    from monaiexample import task
    from torch.utils.data import DataLoader

    def small(spatial_dims: int, in_channels: int, out_channels: int) -> Any:
        return densenet.DenseNet(spatial_dims, in_channels, out_channels, 8, 4, (1, 1))

    densenet.DenseNet121 = small

    def load_data(num_partitions: int, partition_id: int, batch_size: int) -> Any:
        rng = np.random.default_rng(partition_id)
        labels = rng.integers(0, 6, 32)
        images = torch.tensor(
            rng.normal(labels[:, None, None, None], 1, (32, 1, 32, 32)), dtype=torch.float32
        )
        rows = [{"img": image, "label": int(one)} for image, one in zip(images, labels, strict=True)]
        return DataLoader(rows[:24], batch_size=batch_size), DataLoader(rows[24:], batch_size=batch_size)

    task.load_data = load_data


def advanced() -> None:
    """advanced-pytorch and custom-mods: what they log goes nowhere."""
    install()
    from unittest.mock import MagicMock

    for name in ("wandb", "torch.utils.tensorboard", "torch.utils.tensorboard.writer"):
        sys.modules.setdefault(name, MagicMock())


def lerobot() -> None:
    """quickstart-lerobot: a policy of one layer in the place of a diffusion policy and a simulated robot."""
    install()
    import torch

    class Policy(torch.nn.Module):
        def __init__(self, config: Any = None, dataset_stats: Any = None) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.diffusion = type("Diffusion", (), {"num_inference_steps": 100})()

        def forward(self, batch: Any) -> Any:
            return {"loss": ((self.layer(batch["x"]) - batch["x"].sum(1, keepdim=True)) ** 2).mean()}

        def save_pretrained(self, path: str) -> None:
            torch.save(self.state_dict(), path)

    module("gym_pusht")
    module("gymnasium")
    module("imageio")
    module(
        "lerobot.common.datasets.lerobot_dataset",
        CODEBASE_VERSION="1",
        LeRobotDataset=type(
            "LeRobotDataset", (), {"__init__": lambda *one, **two: None, "stats": None, "num_episodes": 8}
        ),
    )
    for name in ("DATA_DIR",):
        setattr(sys.modules["lerobot.common.datasets.lerobot_dataset"], name, "/tmp")
    utils = {"get_hf_dataset_safe_version": lambda *one: "1", "hf_transform_to_torch": lambda rows: rows}
    module("lerobot.common.datasets.utils", **utils, **dict.fromkeys(_UTILS))
    module("lerobot.common.datasets.video_utils", VideoFrame=None, load_from_videos=None)
    module("lerobot.common.policies.diffusion.configuration_diffusion", DiffusionConfig=lambda **one: None)
    module("lerobot.common.policies.diffusion.modeling_diffusion", DiffusionPolicy=Policy)
    from lerobot_example import task

    class Rows(torch.utils.data.Dataset):
        stats: Any = None

        def __len__(self) -> int:
            return 32

        def __getitem__(self, place: int) -> Any:
            return {"x": torch.sin(torch.arange(4.0) + place)}

    def load_data(partition_id: int, num_partitions: int, model_name: str, device: Any = None) -> Any:
        return torch.utils.data.DataLoader(Rows(), batch_size=8)

    def test(partition_id: int, net: Any, device: Any, output_dir: Any) -> tuple[float, float]:
        with torch.no_grad():
            found = [net({"x": Rows()[place]["x"][None]})["loss"].item() for place in range(8)]
        return sum(found) / len(found), 0.5

    task.load_data, task.test = load_data, test


_UTILS = (
    "calculate_episode_data_index",
    "load_episode_data_index",
    "load_hf_dataset",
    "load_info",
    "load_previous_and_future_frames",
    "load_stats",
    "load_videos",
    "reset_episode_index",
)


def from_disk() -> None:
    """embedded-devices and supernode-authentication: `load_from_disk` of a node's path."""
    install()
    import datasets

    from flower_parts.data import load_dataset

    datasets.load_from_disk = lambda path: load_dataset("mnist" if "mnist" in path else "cifar10")


def tensorflow() -> None:
    """quickstart-tensorflow: Keras on torch, as TensorFlow takes longer to import than the app to train."""
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    install()


def fastai() -> None:
    """quickstart-fastai, as it is; SqueezeNet from scratch."""
    install()


def fedrag() -> None:
    """fedrag: no corpus, no retriever, no language model; its server's loop is what counts."""
    install()
    from unittest.mock import MagicMock

    for name in ("fedrag.retriever", "fedrag.llm_querier", "fedrag.mirage_qa"):
        sys.modules[name] = MagicMock()


def jax() -> None:
    """quickstart-jax: batches as `datasets` made them in March 2026; those of version 5 have other shapes."""
    install()
    import jax.numpy as jnp
    import numpy as np
    from jaxexample import task

    def load_data(partition_id: int, num_partitions: int, batch_size: int) -> Any:
        rng = np.random.default_rng(partition_id)
        size, found = min(batch_size, 16), []
        for _ in range(3):
            labels = rng.integers(0, 10, size)
            images = rng.normal(labels[:, None, None, None] / 10, 0.1, (size, 28, 28, 1))
            found.append({"image": jnp.float32(images), "label": jnp.int16(labels)})
        return found[:2], found[2:]

    task.load_data = load_data


def higgs() -> None:
    """xgboost-comprehensive: half a million rows fewer are moved from one split to the other."""
    install()
    from xgboost_comprehensive import task

    task.resplit = lambda dataset: dataset


def floco() -> None:
    """The baseline floco, whose nodes have 500 rows each."""
    from flower_parts import data

    data.ROWS = 2100
    install()


def fedrep() -> None:
    """The baseline fedrep: flwr 1.41 has `Client` elsewhere."""
    install()
    from flwr.client import Client

    module("flwr.client.client", Client=Client)
