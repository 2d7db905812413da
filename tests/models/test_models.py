import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedhpo.core.errors import InputError
from fedhpo.models import MODELS, build, hyperparameter_defaults


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def conv(inputs, outputs, kernel):
    return inputs * outputs * kernel * kernel + outputs


def dense(inputs, outputs):
    return inputs * outputs + outputs


def recurrent(inputs, hidden):
    """Four gates, each with two weight matrices and two biases."""
    return 4 * (inputs * hidden + hidden * hidden + 2 * hidden)


def residual_network(channels, width, classes):
    def block(inputs, outputs):
        shortcut = inputs * outputs + 2 * outputs if inputs != outputs else 0
        return 9 * inputs * outputs + 9 * outputs * outputs + 4 * outputs + shortcut

    stages = [(width, width), (width, 2 * width), (2 * width, 4 * width), (4 * width, 8 * width)]
    blocks = sum(block(inputs, outputs) + block(outputs, outputs) for inputs, outputs in stages)
    return 9 * channels * width + 2 * width + blocks + dense(8 * width, classes)


CASES = [
    ("linear", (1, 28, 28), 10, {}, dense(784, 10)),
    ("mlp", (64,), 10, {}, dense(64, 32) + dense(32, 10)),
    ("mlp", (8, 8), 10, {"hidden": (20, 30)}, dense(64, 20) + dense(20, 30) + dense(30, 10)),
    ("mlp", (64,), 10, {"hidden": 20, "layers": 2}, dense(64, 20) + dense(20, 20) + dense(20, 10)),
    # 28 -> 14 -> 7, padded
    (
        "cnn_small",
        (1, 28, 28),
        10,
        {},
        conv(1, 16, 3) + conv(16, 32, 3) + dense(32 * 7 * 7, 128) + dense(128, 10),
    ),
    ("cnn_small", (1, 8, 8), 10, {"width": 4, "hidden": 5}, 40 + 296 + dense(8 * 2 * 2, 5) + dense(5, 10)),
    # The number that TensorFlow's tutorial prints for this network.
    ("cnn_cifar", (3, 32, 32), 10, {}, 122_570),
    # 28 -> 26 -> 24 -> 12
    (
        "cnn_femnist",
        (1, 28, 28),
        62,
        {},
        conv(1, 32, 3) + conv(32, 64, 3) + dense(64 * 12 * 12, 1024) + dense(1024, 62),
    ),
    ("cnn_leaf", (1, 28, 28), 62, {}, 832 + 51_264 + dense(3136, 512) + dense(512, 62)),
    # TensorFlow Federated's Shakespeare network has 820,522; Keras has one bias per gate, not two.
    ("lstm", (80,), 90, {}, 820_522 + 2 * 4 * 256),
    (
        "lstm",
        (25,),
        50,
        {"embedding": 128, "hidden": 128, "per_token": True},
        50 * 128 + 2 * recurrent(128, 128) + dense(128, 50),
    ),
    (
        "lstm",
        (20,),
        2,
        {"vocabulary": 30, "layers": 1, "hidden": 16},
        30 * 8 + recurrent(8, 16) + dense(16, 2),
    ),
    # The usual count of a ResNet-18 for CIFAR-10.
    ("resnet18_gn", (3, 32, 32), 10, {}, 11_173_962),
    ("resnet18_gn", (1, 16, 16), 5, {"width": 8, "groups": 4}, residual_network(1, 8, 5)),
]


@pytest.mark.parametrize(("name", "shape", "classes", "hyperparameters", "parameters"), CASES)
def test_parameters_and_outputs(name, shape, classes, hyperparameters, parameters):
    model = build(name, shape, classes, **hyperparameters)
    assert count(model) == parameters
    assert not list(model.buffers())
    batch = torch.zeros(2, *shape, dtype=torch.int64 if name == "lstm" else torch.float32)
    positions = shape if hyperparameters.get("per_token") else ()
    outputs = model(batch)
    assert outputs.shape == (2, *positions, classes)
    assert all(parameter.grad_fn is None and parameter.requires_grad for parameter in model.parameters())
    gradients = torch.autograd.grad(outputs.sum(), list(model.parameters()), allow_unused=False)
    assert len(gradients) == len(list(model.parameters()))


def test_every_model_is_tried():
    assert {case[0] for case in CASES} == set(MODELS)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "linear"])
def test_dropout_is_a_module_whose_rate_can_be_set(name):
    shape = {"lstm": (5,), "mlp": (64,)}.get(name, (3, 32, 32))
    small = {"width": 2, "groups": 1} if name == "resnet18_gn" else {"hidden": 64}
    model = build(name, shape, 10, dropout=0.25, **small)
    layers = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    assert [layer.p for layer in layers] == [0.25]
    batch = torch.ones(4, *shape, dtype=torch.int64 if name == "lstm" else torch.float32)
    torch.manual_seed(0)
    assert not torch.equal(model(batch), model(batch))
    layers[0].p = 0.0
    assert torch.equal(model(batch), model(batch))


def test_a_deep_mlp_drops_after_every_hidden_layer():
    model = build("mlp", (4,), 2, hidden=[8, 8, 8])
    assert [module.p for module in model.modules() if isinstance(module, nn.Dropout)] == [0.0] * 3


def test_weights_follow_the_seed():
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(
            torch.cat([parameter.flatten() for parameter in build("cnn_small", (1, 8, 8), 3).parameters()])
        )
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_linear_is_logistic_regression():
    model = build("linear", (2, 3), 2)
    weight, bias = model.parameters()
    batch = torch.arange(12, dtype=torch.float32).reshape(2, 2, 3)
    assert torch.allclose(model(batch), batch.reshape(2, 6) @ weight.T + bias)


def test_pooling_before_relu_is_relu_before_pooling():
    torch.manual_seed(0)
    model = build("cnn_small", (1, 8, 8), 3, width=2, hidden=5)
    x, y = torch.randn(7, 1, 8, 8), torch.arange(7) % 3
    gradients = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    w1, b1, w2, b2, v1, c1, v2, c2 = weights = [p.detach().requires_grad_() for p in model.parameters()]
    hidden = F.max_pool2d(F.relu(F.conv2d(x, w1, b1, padding=1)), 2)
    hidden = F.max_pool2d(F.relu(F.conv2d(hidden, w2, b2, padding=1)), 2)
    output = F.relu(hidden.flatten(1) @ v1.T + c1) @ v2.T + c2
    torch.testing.assert_close(model(x), output)
    torch.testing.assert_close(gradients, torch.autograd.grad(F.cross_entropy(output, y), weights))


def test_lstm_reads_the_last_position():
    torch.manual_seed(0)
    last = build("lstm", (6,), 11, hidden=8)
    every = build("lstm", (6,), 11, hidden=8, per_token=True)
    every.load_state_dict(last.state_dict())
    tokens = torch.randint(0, 11, (3, 6))
    assert torch.allclose(every(tokens)[:, -1], last(tokens))


def test_defaults_of_the_hyperparameters():
    assert hyperparameter_defaults("linear") == {}
    assert hyperparameter_defaults("cnn_leaf") == {"width": 32, "hidden": 512, "dropout": 0.0}


@pytest.mark.parametrize(
    ("name", "shape", "hyperparameters", "message"),
    [
        ("mpl", (64,), {}, r"unknown model 'mpl' \(did you mean 'mlp'\?\); known: cnn_cifar"),
        ("mlp", (64,), {"hiden": 3}, r"unknown hyperparameter of model mlp 'hiden' \(did you mean 'hidden'"),
        ("linear", (64,), {"dropout": 0.1}, r"unknown hyperparameter of model linear 'dropout'"),
        ("mlp", (64,), {"hidden": 0}, r"hidden must be a whole number of at least 1, not 0"),
        ("mlp", (64,), {"hidden": (8, 4.0)}, r"hidden must be a whole number of at least 1, not 4.0"),
        ("mlp", (64,), {"hidden": ()}, r"hidden must be a list of whole numbers, found \(\)"),
        ("mlp", (64,), {"hidden": (8,), "layers": 2}, r"layers goes with one width"),
        ("mlp", (64,), {"dropout": 1.0}, r"dropout must be a number from 0 to below 1, found 1.0"),
        ("mlp", 64, {}, r"shape must be a list of whole numbers, found 64"),
        ("cnn_cifar", (64,), {}, r"cnn_cifar takes images .*, found shape \(64,\)"),
        ("cnn_cifar", (3, 17, 17), {}, r"images of shape \(3, 17, 17\) are too small for cnn_cifar"),
        ("lstm", (3, 8, 8), {}, r"lstm takes token sequences .*, found shape \(3, 8, 8\)"),
        ("lstm", (8,), {"per_token": 1}, r"per_token must be true or false, found 1"),
        ("resnet18_gn", (3, 8, 8), {"width": 6, "groups": 4}, r"multiple of groups, found width=6, groups=4"),
    ],
)
def test_mistakes_are_named(name, shape, hyperparameters, message):
    with pytest.raises(InputError, match=message):
        build(name, shape, 10, **hyperparameters)


def test_classes_must_be_a_number():
    with pytest.raises(InputError, match=r"classes must be a whole number of at least 1, not '10'"):
        build("linear", (4,), "10")


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_the_wrong_shape_is_explained(name):
    shape = {"lstm": (5,), "mlp": (64,)}.get(name, (3, 32, 32))
    model = build(name, shape, 10, **({"width": 2} if name == "resnet18_gn" else {}))
    with pytest.raises(InputError, match=r"samples of shape .*, found a batch of shape \(2, 7\)"):
        model(torch.zeros(2, 7))


def test_tokens_must_be_whole_numbers():
    with pytest.raises(InputError, match=r"lstm takes tokens as whole numbers, found torch.float32"):
        build("lstm", (5,), 10, hidden=4)(torch.zeros(2, 5))


def test_torch_is_imported_only_to_build():
    code = "import sys, fedhpo.models, fedhpo.space; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_vmap_over_stacked_weights_gives_each_models_own_outputs():
    models = [build("mlp", (4,), 3, hidden=5) for _ in range(3)]
    batch = torch.randn(3, 7, 4)
    stacked, _ = torch.func.stack_module_state(models)
    together = torch.func.vmap(lambda weights, x: torch.func.functional_call(models[0], weights, (x,)))(
        stacked, batch
    )
    for index, model in enumerate(models):
        assert torch.allclose(together[index], model(batch[index]), atol=1e-6)
