"""Text sets: Shakespeare's roles (next character) and Stack Exchange users (next word).

Token 0 is padding. Text is cut into samples once, and kept in the cache for each choice of options.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import whole_number
from fedhpo.data.cache import cached
from fedhpo.data.container import IGNORE, Array, Integers, Split
from fedhpo.data.partition import Natural
from fedhpo.data.samples import Samples
from fedhpo.data.sets.request import Request, check_choice

WINDOW = 80
"""Characters of a Shakespeare sample, as in LEAF."""

SENTENCE = 25
"""Words of a Stack Exchange sample, as in the noisy-evaluation paper."""

CHARACTERS = "\n !$&'(),-.234568:;?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz"
"""The 74 characters of the plays; token i + 1 is `CHARACTERS[i]`."""

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?|[.,;:!?]")


def shakespeare(
    request: Request,
    *,
    window: int = WINDOW,
    stride: int | None = None,
    per_token: bool = False,
    samples_per_client: int | None = None,
) -> Samples:
    """`window` characters and the one after them; the 1,129 roles of at least two speeches are the clients.

    A role's speeches are joined by line ends; windows start every `stride` characters, by default one
    after the other. LEAF's stride is 1 (4.19 million samples); with less than the window, windows overlap, so
    that a random split inside clients lets the test text be seen in training: use
    `InsideClients(shuffle=False)`. A role of fewer characters gives one sample, padded on the left. With
    `per_token` the next one is asked for after every character of the window, for a model that says so too.
    `samples_per_client` keeps at most so many, at random.
    """
    whole_number("window", window)
    stride = window if stride is None else whole_number("stride", stride)
    check_choice("per_token", per_token, (False, True))
    file = request.file("text/shakespeare_by_role.json.gz")
    options: dict[str, object] = {"stride": stride}
    if window != WINDOW or per_token:
        options |= {"window": window, "per_token": per_token}
    arrays = cached("shakespeare", file, options, lambda: _shakespeare(file, window, stride, per_token))
    return _language(arrays, len(CHARACTERS) + 1, samples_per_client, request)


def stackexchange(
    request: Request, *, vocabulary: int = 10_000, samples_per_client: int | None = None
) -> Samples:
    """25 words and for each the next one; users are the clients.

    Words are in lower case, punctuation marks are words; the `vocabulary` most frequent are tokens 2, 3,
    ...; token 1 stands for all others. Posts are cut into pieces of 25, the last one padded on the right,
    where labels are -100. A post of one word predicts nothing and is left out.
    """
    whole_number("vocabulary", vocabulary)
    file = request.file("text/stackexchange_by_user.json.gz")
    arrays = cached(
        "stackexchange", file, {"vocabulary": vocabulary}, lambda: _stackexchange(file, vocabulary)
    )
    return _language(arrays, vocabulary + 2, samples_per_client, request)


def _language(arrays: dict[str, Array], classes: int, most: int | None, request: Request) -> Samples:
    groups = arrays["groups"].astype(np.int64)
    names = arrays["names"].tolist()
    return Samples(
        x=arrays["x"],
        y=arrays["y"].astype(np.int64),
        task="language",
        classes=classes,
        groups=groups,
        group_names=names,
        rows=None if most is None else _at_most(most, groups, len(names), request.rng()),
        partition=Natural(request.clients),
    )


def _at_most(most: int, groups: Integers, clients: int, rng: np.random.Generator) -> Integers:
    """At most so many rows of each client, at random, in their order."""
    whole_number("samples_per_client", most)
    rows = Split.from_owners(groups, clients).shuffled(rng)
    return np.sort(rows.indices[rows.places < most])


def _read(file: Path) -> dict[str, Any]:
    with gzip.open(file, "rt", encoding="utf-8") as text:
        clients: dict[str, Any] = json.load(text)["clients"]
    return clients


def _shakespeare(file: Path, window: int, stride: int, per_token: bool) -> dict[str, Array]:
    code = np.zeros(128, dtype=np.uint8)
    code[[ord(c) for c in CHARACTERS]] = np.arange(1, len(CHARACTERS) + 1)
    roles = {name: "\n".join(speeches) for name, speeches in _read(file).items() if len(speeches) >= 2}
    unknown = set().union(*roles.values()) - set(CHARACTERS)
    if unknown:
        raise InputError(f"{file} has characters that are not known: {sorted(unknown)}")
    windows = []
    for text in roles.values():
        tokens = code[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]
        tokens = np.pad(tokens, (max(0, window + 1 - len(tokens)), 0))
        windows.append(np.lib.stride_tricks.sliding_window_view(tokens, window + 1)[::stride])
    samples = np.concatenate(windows)
    following = samples[:, -1]
    if per_token:
        following = np.where(samples[:, :-1] == 0, IGNORE, samples[:, 1:].astype(np.int16))
    return {
        "x": np.ascontiguousarray(samples[:, :-1]),
        "y": np.ascontiguousarray(following),
        "groups": np.repeat(np.arange(len(windows)), [len(w) for w in windows]),
        "names": np.array(list(roles)),
    }


def _stackexchange(file: Path, vocabulary: int) -> dict[str, Array]:
    users = {name: [_WORD.findall(post[-1].lower()) for post in posts] for name, posts in _read(file).items()}
    users = {name: kept for name, posts in users.items() if (kept := [p for p in posts if len(p) > 1])}
    counts = Counter(word for posts in users.values() for post in posts for word in post)
    # Frequent words first, words of equal frequency by alphabet: the same tokens everywhere.
    words = sorted(counts, key=lambda word: (-counts[word], word))[:vocabulary]
    token = {word: number for number, word in enumerate(words, start=2)}

    x, y, groups = [], [], []
    for group, posts in enumerate(users.values()):
        for post in posts:
            tokens = [token.get(word, 1) for word in post]
            for start in range(0, len(tokens) - 1, SENTENCE):
                piece = tokens[start : start + SENTENCE + 1]
                blank = SENTENCE + 1 - len(piece)
                x.append(piece[:-1] + [0] * blank)
                y.append(piece[1:] + [IGNORE] * blank)
                groups.append(group)
    small = np.int16 if vocabulary + 2 <= np.iinfo(np.int16).max else np.int32
    return {
        "x": np.array(x, dtype=small),
        "y": np.array(y, dtype=small),
        "groups": np.array(groups),
        "names": np.array(list(users)),
    }
