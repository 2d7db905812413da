"""Models of transformers with adapters of peft: what is trained, sent and kept is the adapter."""

import math
import warnings

import numpy as np
import pytest
import torch

import fedhpo as fh
from fedhpo.engine.frozen import Shapes

pytest.importorskip("transformers")
peft = pytest.importorskip("peft")


def fixed(model_class, config, **lora):
    """A base of fixed numbers, as pretrained ones are, with an adapter that follows the trial's seed."""
    state = torch.random.get_rng_state()
    torch.manual_seed(7)
    base = model_class(config)
    torch.random.set_rng_state(state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peft.get_peft_model(base, peft.LoraConfig(**lora))


def llama(rank=4, dtype=torch.float32):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        bos_token_id=0,
        eos_token_id=1,
    )
    return fixed(lambda c: LlamaForCausalLM(c).to(dtype), config, r=rank, lora_alpha=8)


def bert(rank=4):
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    return fixed(BertForSequenceClassification, config, r=rank, task_type="SEQ_CLS")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rank", [1, 4])
def test_the_state_is_what_peft_would_send(rank, dtype):
    model = Shapes(lambda rank: llama(rank, dtype)).build({"rank": rank}, seed=5)
    sent = peft.get_peft_model_state_dict(model.module)
    assert 4 * model.size == sum(tensor.nbytes for tensor in sent.values())
    # q_proj and v_proj of both layers: A (rank, 32) and B (32, rank)
    assert model.size == 2 * 2 * rank * (32 + 32)


def test_the_head_of_a_classifier_comes_along():
    model = Shapes(bert).build({})
    assert 4 * model.size == sum(t.nbytes for t in peft.get_peft_model_state_dict(model.module).values())


def test_trials_differ_in_their_adapters_only():
    shapes = Shapes(llama)
    first, second = shapes.build({}, 11), shapes.build({}, 12)
    assert not np.array_equal(first.vector(), second.vector())
    for name, p in first.frozen.items():
        assert torch.equal(p, second.frozen[name])


class Stop(BaseException):
    """As a process that ends at once."""


def test_an_interrupted_run_goes_on_to_the_same_result(tmp_path, monkeypatch):
    """The adapters come from checkpoints, the base from the builder."""
    from .test_frozen import Adapted

    data = fh.load("digits", clients=6)
    space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)}, model={"rank": fh.Choice([1, 2, 4])})

    def tuned(directory, stop_after=math.inf):
        with fh.simulate(Adapted, data, workers=0) as federation:
            done, seen = federation.next_done, []

            def stopping(*asked):
                seen.append(asked)
                if len(seen) > stop_after:
                    raise Stop
                return done(*asked)

            monkeypatch.setattr(federation, "next_done", stopping)
            return fh.tune(federation, space, "sha", rounds=9, total=45, cohort=3, run=directory)

    whole = tuned(tmp_path / "whole")
    for stop_after in (5, 12, 20):
        with pytest.raises(Stop):
            tuned(tmp_path / "broken", stop_after)
    again = tuned(tmp_path / "broken")
    assert list(again.trials) == list(whole.trials)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])
    kept = sorted((tmp_path / "broken" / "checkpoints").rglob("*.safetensors"))
    assert kept
    assert max(path.stat().st_size for path in kept) < 3000  # an adapter of rank 4 and the head: 1,960 bytes


def test_texts_and_a_model_of_peft_are_tuned():
    texts = {f"client {i}": "to be or not to be, that is the question. " * 8 for i in range(4)}
    data = fh.from_text(texts, window=16)
    space = fh.Space(
        client={"lr": fh.Float(1e-4, 1e-1, log=True), "optimiser": "adamw", "max_steps": 3, "batch_size": 4},
        model={"rank": fh.Choice([1, 2])},
    )
    with fh.simulate(llama, data, workers=0) as federation:
        result = fh.tune(federation, space, "random", rounds=2, total=4, cohort=2, objective="loss")
        size = {1: 256, 2: 512}
        assert all(one["status"] == "finished" for one in result.trials)
        rounds = [2 * 4 * size[one["model.rank"]] * one["rounds"] for one in result.trials]
        assert result.cost.bytes_up >= sum(rounds)
    assert result.model(torch.zeros(1, 4, dtype=torch.long)).logits.shape == (1, 4, 32)


def adapted(rank=4, alpha=8, targets="q_proj", ffa=False, dropout=0.0, order="rank"):
    """A builder as people write it: what it is given goes to peft."""
    from transformers import LlamaConfig, LlamaForCausalLM

    assert order == "rank"  # a text of the builder's own, not a formula
    config = LlamaConfig(
        vocab_size=32, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2
    )
    model = fixed(
        LlamaForCausalLM,
        config,
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=targets.split(","),
    )
    for name, p in model.named_parameters():
        if ffa and "lora_A" in name:
            p.requires_grad_(False)
    return model


def test_alpha_is_tied_to_the_rank_for_a_builder_of_peft():
    shapes = Shapes(adapted)
    for rank, alpha, scale in (
        (4, "2 * rank", 2.0),
        (2, "rank", 1.0),
        (4, "8 * sqrt(rank)", 4.0),
        (4, 2, 0.5),
    ):
        model = shapes.build({"rank": rank, "alpha": alpha, "order": "rank"})
        layer = model.module.base_model.model.model.layers[0].self_attn.q_proj
        assert layer.scaling["default"] == scale


def test_rank_targets_dropout_and_a_frozen_first_factor_are_tuned():
    data = fh.from_text({f"client {i}": "to be or not to be. " * 12 for i in range(4)}, window=16)
    space = fh.Space(
        client={"lr": 1e-2, "optimiser": "adamw", "max_steps": 2, "batch_size": 4},
        model={
            "rank": fh.Choice([1, 2]),
            "alpha": "2 * rank",
            "targets": fh.Choice(["q_proj", "q_proj,v_proj"]),
            "dropout": fh.Choice([0.0, 0.2]),
        },
    )
    with fh.simulate(adapted, data, workers=0) as federation:
        result = fh.tune(federation, space, "random", rounds=1, total=4, cohort=2, objective="loss")
    assert all(one["status"] == "finished" for one in result.trials)


def test_a_frozen_first_factor_that_peft_draws_is_no_part_of_what_is_trained():
    """It is drawn from the trial's seed: it stays in the trial's state beside B, (32, rank) of each map."""
    model = Shapes(adapted).build({"rank": 2, "targets": "q_proj,v_proj", "ffa": True})
    assert model.trainable_size == 2 * 2 * 32
    assert model.size == 2 * 2 * (32 + 32)
