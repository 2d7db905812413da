"""Texts by client to a federation: tokens, and for each the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.settings import shown, whole_number
from fedhpo.core.streams import stream
from fedhpo.data.container import IGNORE, Array, FederatedData, Split
from fedhpo.data.split import InsideClients, SplitRule


@dataclass(frozen=True)
class Characters:
    """A tokenizer of single characters: token 0 is padding, 1 any character that is not known.

    >>> tokens = Characters("abc").encode("cab!")
    >>> tokens, Characters("abc").decode(tokens)
    ([4, 2, 3, 1], 'cab\N{REPLACEMENT CHARACTER}')
    """

    known: str

    @classmethod
    def of(cls, texts: Iterable[str]) -> Characters:
        """All characters of some texts."""
        return cls("".join(sorted(set().union(*texts))))

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self.known) + 2

    def encode(self, text: str) -> list[int]:
        """Tokens of a text."""
        place = {character: i + 2 for i, character in enumerate(self.known)}
        return [place.get(character, 1) for character in text]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of some tokens."""
        return "".join(
            "" if t == 0 else "\N{REPLACEMENT CHARACTER}" if t == 1 else self.known[t - 2] for t in tokens
        )


def from_text(
    texts: Any,
    *,
    tokenizer: Any = None,
    window: int = 64,
    client: str | None = None,
    text: str | None = None,
    pad: int = 0,
    split: SplitRule | None = None,
    seed: int = 0,
    name: str = "text",
) -> FederatedData:
    """Texts by client, cut into windows; a model says after every token which one comes next.

    Parameters
    ----------
    texts
        For each client a text or a list of texts: a dict by name, or a list. Or files, one a client: a
        directory of `.txt` files, or a list of paths. Or a frame of pandas, with columns `client` and `text`.
    tokenizer
        Any object with `encode(text)` (those of transformers and tokenizers), or a function from a text to a
        list of whole numbers. Left out, characters are tokens: see `fedhpo.Characters`.
    window
        Tokens of a sample. Texts of a client are cut one by one; the last window of each is filled up with
        `pad`, where labels are -100 and count neither in training nor in scores.
    client, text
        Columns of a frame.
    split
        `InsideClients(shuffle=False)` if left out: what comes last in a client's texts validates and tests.

    Examples
    --------
    >>> import fedhpo as fh
    >>> data = fh.from_text({"ann": "to be or not to be", "bob": ["that is", "the question"]}, window=8)
    >>> data.x.shape, data.clients, data.classes
    ((6, 8), 2, 15)
    """
    whole_number("window", window, least=2)
    clients = _clients(texts, client, text)
    if tokenizer is None:
        tokenizer = Characters.of(one for own in clients.values() for one in own)
    encode = _encoder(tokenizer)
    x, y, sizes = [], [], []
    for who, own in clients.items():
        pieces = [piece for one in own for piece in _windows(encode(one, who), window, pad)]
        if not pieces:
            raise InputError(f"client {who!r}: no text of at least two tokens")
        x += [before for before, _ in pieces]
        y += [after for _, after in pieces]
        sizes.append(len(pieces))
    tokens, labels = np.stack(x), np.stack(y)
    most = max(int(tokens.max()), int(labels.max())) + 1
    classes = max(most, _vocabulary(tokenizer))
    small: Any = np.int16 if classes <= np.iinfo(np.int16).max else np.int32
    whole = Split.from_sizes(np.arange(len(tokens)), np.array(sizes, np.int64))
    parts = (split or InsideClients(shuffle=False))(whole, stream(seed, "split"))
    return FederatedData(
        tokens.astype(small),
        labels,
        *parts,
        task="language",
        classes=classes,
        name=name,
        client_names=tuple(clients),
    ).validate()


def _windows(tokens: Array, window: int, pad: int) -> Iterable[tuple[Array, Array]]:
    """Tokens and those that follow them, piece by piece; each is asked for once."""
    for begin in range(0, len(tokens) - 1, window):
        piece = tokens[begin : begin + window + 1]
        blank = window + 1 - len(piece)
        yield (
            np.pad(piece[:-1], (0, blank), constant_values=pad),
            np.pad(piece[1:], (0, blank), constant_values=IGNORE),
        )


def _vocabulary(tokenizer: Any) -> int:
    """How many tokens a tokenizer has, where it says so."""
    try:
        found = tokenizer.get_vocab_size() if hasattr(tokenizer, "get_vocab_size") else len(tokenizer)
    except TypeError:
        found = getattr(tokenizer, "vocab_size", 0)
    return found if isinstance(found, int) else 0


def _encoder(tokenizer: Any) -> Any:
    function = getattr(tokenizer, "encode", tokenizer)
    if not callable(function):
        raise InputError(f"tokenizer must have encode(text), or be a function, not {shown(tokenizer)}")

    def encode(text: str, who: str) -> Array:
        found = function(text)
        tokens = np.asarray(getattr(found, "ids", found))  # an `Encoding` of the package tokenizers
        if tokens.ndim != 1 or (len(tokens) and tokens.dtype.kind not in "iu"):
            raise InputError(
                f"client {who!r}: the tokenizer gives {shown(found)} for a text, not a list of whole numbers"
            )
        if len(tokens) and int(tokens.min()) < 0:
            raise InputError(f"client {who!r}: the tokenizer gives a token below 0")
        return tokens.astype(np.int64)

    return encode


def _clients(given: Any, client: str | None, text: str | None) -> dict[str, list[str]]:
    """Each client's texts."""
    if hasattr(given, "columns"):
        return _of_frame(given, client, text)
    for key, value in (("client", client), ("text", text)):
        if value is not None:
            raise InputError(f"{key} = {value!r}: has no effect without a frame: leave it out")
    if isinstance(given, str | Path):
        directory = Path(given)
        files = sorted(directory.glob("*.txt")) if directory.is_dir() else []
        if not files:
            raise InputError(f"texts: {str(given)!r} is no directory with .txt files, one a client")
        given = files
    if isinstance(given, Mapping):
        named = {str(key): value for key, value in given.items()}
    elif isinstance(given, Sequence) and given and all(isinstance(one, Path) for one in given):
        named = {path.stem: _read(path) for path in given}
        if len(named) < len(given):
            raise InputError("texts: two files have the same name: give a dict of texts by client")
    elif isinstance(given, Sequence):
        named = {str(i): value for i, value in enumerate(given)}
    else:
        raise InputError(f"texts must be a dict or list with the texts of each client, not {shown(given)}")
    if not named:
        raise InputError("texts is empty; at least one client is needed")
    return {who: _texts(who, value) for who, value in named.items()}


def _texts(who: str, value: Any) -> list[str]:
    found = [value] if isinstance(value, str) else [_read(value)] if isinstance(value, Path) else value
    if not isinstance(found, list | tuple) or not all(isinstance(one, str) for one in found):
        raise InputError(f"client {who!r}: found {shown(value)}; allowed: a text, or a list of texts")
    return list(found)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from None


def _of_frame(frame: Any, client: str | None, text: str | None) -> dict[str, list[str]]:
    names = list(map(str, frame.columns))
    for key, column in (("client", client), ("text", text)):
        if column is None:
            raise InputError(
                f"{key} is missing: which column of the frame is it? There are {', '.join(names)}"
            )
        if column not in names:
            raise InputError(f"{key} = {column!r} is no column of the frame; there are {', '.join(names)}")
    found: dict[str, list[str]] = {}
    for who, one in zip(frame[client], frame[text], strict=True):
        if not isinstance(one, str):
            raise InputError(f"column {text!r}: found {shown(one)}; allowed: texts")
        found.setdefault(str(who), []).append(one)
    return found
