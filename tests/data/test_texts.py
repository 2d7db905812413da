"""Texts by client: windows, tokenizers, files and frames."""

import numpy as np
import pytest
import torch
from torch import nn

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.data import IGNORE


def test_every_token_is_asked_for_once():
    data = fh.from_text({"a": "abcdefg"}, window=3)
    assert data.x.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert data.y.tolist() == [[3, 4, 5], [6, 7, 8]]
    assert (data.task, data.classes, data.client_names) == ("language", 9, ("a",))


def test_the_last_window_is_padded_and_its_labels_ignored():
    data = fh.from_text([["abcd", "ab"]], window=2)
    assert data.x.tolist() == [[2, 3], [4, 0], [2, 0]]
    assert data.y.tolist() == [[3, 4], [5, IGNORE], [3, IGNORE]]


def test_a_clients_last_texts_validate_and_test():
    data = fh.from_text({"a": "x" * 101}, window=10)
    assert [part.rows(0).tolist() for part in (data.train, data.validation, data.test)] == [
        list(range(8)),
        [8],
        [9],
    ]


class Words:
    """A tokenizer as others bring it."""

    def encode(self, text):
        return [len(word) for word in text.split()]

    def __len__(self):
        return 50


def test_tokenizers():
    data = fh.from_text({"a": "to be or not to be"}, tokenizer=Words(), window=5)
    assert data.x.tolist() == [[2, 2, 2, 3, 2]]
    assert data.classes == 50
    same = fh.from_text({"a": "to be or not to be"}, tokenizer=Words().encode, window=5)
    assert same.x.tolist() == data.x.tolist()
    with pytest.raises(InputError, match="client 'a': the tokenizer gives"):
        fh.from_text({"a": "to be"}, tokenizer=str.split)


def test_a_tokenizer_of_the_package_tokenizers():
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({"to": 0, "be": 1, "[UNK]": 2}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    data = fh.from_text({"a": "to be or to be"}, tokenizer=tokenizer, window=4)
    assert data.x.tolist() == [[0, 1, 2, 0]]
    assert data.classes == 3


def test_files_and_frames(tmp_path):
    texts = {"ann": "to be or not", "bob": "that is the question"}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text)
    wanted = fh.from_text(texts, window=4)
    assert np.array_equal(fh.from_text(tmp_path, window=4).x, wanted.x)
    assert np.array_equal(fh.from_text(sorted(tmp_path.glob("*.txt")), window=4).x, wanted.x)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"who": list(texts), "said": list(texts.values())})
    found = fh.from_text(frame, client="who", text="said", window=4)
    assert np.array_equal(found.x, wanted.x)
    assert found.client_names == ("ann", "bob")
    with pytest.raises(InputError, match="client is missing: which column"):
        fh.from_text(frame, text="said")


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ({}, {}, "texts is empty"),
        ({"a": 3}, {}, "client 'a': found 3"),
        ({"a": "x"}, {}, "client 'a': no text of at least two tokens"),
        ({"a": "xy"}, {"window": 1}, "window"),
        ({"a": "xy"}, {"client": "who"}, "client = 'who': has no effect without a frame"),
        ("/nowhere", {}, "no directory with .txt files"),
        ({"a": "xy"}, {"tokenizer": 3}, "tokenizer must have encode"),
    ],
)
def test_what_cannot_be_is_refused(texts, options, message):
    with pytest.raises(InputError, match=message):
        fh.from_text(texts, **options)


class Bigrams(nn.Module):
    """The next character by the last one."""

    def __init__(self, classes):
        super().__init__()
        self.table = nn.Embedding(classes, classes)
        nn.init.zeros_(self.table.weight)

    def forward(self, x):
        return self.table(x)


def test_a_model_learns_them():
    texts = {f"client {i}": "abcabcabc" * 12 for i in range(4)}
    data = fh.from_text(texts, window=8)
    space = fh.Space(client={"lr": fh.Float(0.1, 1.0), "optimiser": "adam", "epochs": 5})
    torch.manual_seed(0)
    with fh.simulate(lambda: Bigrams(data.classes), data, workers=0) as federation:
        result = fh.tune(federation, space, "random", rounds=3, total=6, cohort=4)
    assert result.best_score > 0.99
