"""Operators for features of classic machine learning."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []

_DOMAIN = "ai.onnx.ml"
MAX_COLUMNS = 1 << 20
"""Largest number of n-gram counts per row."""


@operator("ArrayFeatureExtractor", domain=_DOMAIN)
def _array_features(node: Node, x: Tensor, index: Tensor) -> Tensor:
    x = x.reshape(1, -1) if x.ndim == 1 else x
    return x.index_select(-1, index.reshape(-1))


@operator("Binarizer", domain=_DOMAIN)
def _binarizer(node: Node, x: Tensor) -> Tensor:
    return (x > node.get("threshold", 0.0)).to(x.dtype)


@operator("TfIdfVectorizer")
def _tf_idf(node: Node, x: Tensor) -> Tensor:
    starts, pool = node.need("ngram_counts"), node.get("pool_int64s")
    places, weights = node.need("ngram_indexes"), node.get("weights")
    shortest, longest, skips = node.need("min_gram_length"), node.need("max_gram_length"), node.need("max_skip_count")
    mode = node.need("mode")
    if pool is None:
        raise NotImplementedError("n-grams of strings are not supported")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise OnnxError(f"the mode {mode!r} is not known")
    width = max(places, default=-1) + 1
    if not 0 < width <= MAX_COLUMNS or min(places) < 0:
        raise OnnxError(f"{width:,} n-grams cannot be counted")
    shape = (width,) if x.ndim == 1 else (x.shape[0], width)
    if x.is_meta:
        return mt.zeros(shape, dtype=mt.float32, device="meta")
    grams: dict[tuple[int, ...], int] = {}
    number = 0
    for length, (begin, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        for at in range(begin, end, length):
            gram = tuple(pool[at : at + length])
            if shortest <= length <= longest and number < len(places):
                grams[gram] = number
            number += 1
    node.run.spend(x.numel() * (skips + 1) * max(longest - shortest + 1, 0) + width // 64)
    rows = [x.tolist()] if x.ndim == 1 else x.tolist()
    found = [_counted(row, grams, places, weights, (shortest, longest, skips), mode, width) for row in rows]
    return node.tensor(found[0] if x.ndim == 1 else found, mt.float32)


def _counted(row: list[int], grams: dict[tuple[int, ...], int], places: list[int], weights: Any, lengths: tuple[int, int, int], mode: str,
             width: int) -> list[float]:  # fmt: skip
    """Return the counts of n-grams in a row, or their weights."""
    counts: list[float] = [0.0] * width
    shortest, longest, skips = lengths
    for distance in range(1, skips + 2):
        for start in range(len(row)):
            for length in range(shortest, longest + 1):
                gram = tuple(row[start : start + length * distance : distance][:length])
                if len(gram) < length or length == 1 and distance > 1:
                    continue
                number = grams.get(gram)
                if number is None:
                    continue
                weight = 1.0 if weights is None else weights[number]
                if mode == "TF":
                    counts[places[number]] += 1
                elif mode == "IDF":
                    counts[places[number]] = weight
                else:
                    counts[places[number]] += weight
    return counts
