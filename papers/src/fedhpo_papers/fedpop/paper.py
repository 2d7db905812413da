"""FedPop's published figures: test accuracy in percent, mean and deviation, global and fine-tuned."""

from __future__ import annotations

from collections.abc import Mapping

Figure = tuple[float, float, float, float]

_SETS = (
    "cifar-iid",
    "cifar-dir1",
    "cifar-dir0.5",
    "femnist-iid",
    "femnist-niid",
    "shakespeare-iid",
    "shakespeare-niid",
)


def _row(*values: float) -> dict[str, Figure]:
    fours = zip(*[iter(values)] * 4, strict=True)
    return {name: (a, b, c, d) for name, (a, b, c, d) in zip(_SETS, fours, strict=True)}


#: Table 2, by wrapper and tuning, then by set.
TABLE_2: Mapping[tuple[str, str], Mapping[str, Figure]] = {
    ("rs", "none"): _row(
        69.04, 7.38, 65.28, 5.83, 63.47, 3.14, 60.51, 8.03, 62.88, 8.13, 60.65, 7.37,
        82.86, 1.24, 83.76, 3.56, 79.06, 5.59, 83.09, 2.64, 33.76, 11.27, 31.19, 10.18,
        32.67, 12.27, 31.32, 9.92,
    ),
    ("rs", "fedex"): _row(
        67.91, 7.15, 64.21, 7.84, 64.34, 5.28, 62.97, 7.27, 63.22, 7.13, 61.92, 8.06,
        82.84, 0.80, 82.57, 3.25, 82.14, 1.60, 84.03, 2.48, 42.68, 7.24, 41.22, 6.34,
        44.28, 8.78, 46.69, 7.39,
    ),
    ("rs", "fedpop"): _row(
        71.18, 4.68, 68.01, 3.42, 68.25, 5.03, 65.74, 3.97, 67.01, 4.98, 65.24, 3.97,
        84.33, 1.41, 85.99, 1.62, 83.21, 2.08, 85.48, 1.48, 44.30, 3.37, 44.46, 3.53,
        47.28, 3.47, 50.25, 3.87,
    ),
    ("sha", "none"): _row(
        78.57, 2.39, 75.93, 4.96, 70.37, 5.03, 67.83, 4.41, 68.65, 4.68, 65.58, 8.10,
        83.81, 0.45, 85.52, 1.63, 80.62, 2.88, 87.64, 0.64, 52.23, 2.54, 49.06, 5.98,
        51.68, 0.95, 48.83, 3.12,
    ),
    ("sha", "fedex"): _row(
        79.83, 2.59, 77.04, 1.45, 72.02, 4.91, 70.81, 4.65, 69.69, 7.03, 67.02, 7.65,
        81.19, 3.24, 85.69, 1.91, 82.76, 0.54, 86.79, 2.89, 51.79, 1.25, 51.89, 1.30,
        51.26, 2.73, 51.01, 3.36,
    ),
    ("sha", "fedpop"): _row(
        81.47, 1.24, 78.96, 0.87, 76.42, 3.04, 75.03, 2.56, 74.88, 2.06, 72.41, 1.87,
        84.33, 0.57, 86.84, 0.98, 83.26, 0.86, 88.33, 0.79, 53.48, 0.57, 52.66, 1.91,
        53.07, 0.97, 52.79, 0.36,
    ),
}  # fmt: skip
#: Table 3, PACS under halving.
TABLE_3: Mapping[str, Figure] = {
    "none": (68.71, 7.38, 76.53, 12.54),
    "fedex": (73.47, 3.06, 80.61, 5.68),
    "fedpop": (75.17, 1.18, 85.37, 2.12),
}
#: Table 4, the two halves of FedPop on CIFAR-10 under random search; global accuracy only.
TABLE_4: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "none": {"cifar-iid": (69.04, 7.38), "cifar-dir1": (63.47, 3.14), "cifar-dir0.5": (62.88, 8.13)},
    "fedpop-g": {"cifar-iid": (70.61, 3.21), "cifar-dir1": (66.81, 3.24), "cifar-dir0.5": (65.63, 4.67)},
    "fedpop-l": {"cifar-iid": (70.03, 2.13), "cifar-dir1": (67.50, 2.06), "cifar-dir0.5": (64.24, 5.96)},
    "fedpop": {"cifar-iid": (71.18, 4.68), "cifar-dir1": (68.25, 5.03), "cifar-dir0.5": (67.01, 4.98)},
}
#: Table 1, vectors tried on CIFAR-10: of the server and of clients.
TABLE_1: Mapping[tuple[str, str], tuple[str, str]] = {
    ("rs", "none"): ("5", "5"),
    ("sha", "none"): ("27", "27"),
    ("rs", "fedex"): ("5", "135"),
    ("rs", "fedpop"): ("45", "more than 1000"),
}
