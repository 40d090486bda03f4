"""Build the model of a GGUF file with transformers, from the metadata in its header. Weights are not read."""

from __future__ import annotations

import ast
import importlib
from typing import Any

from metatensor.cli.configs import TargetError, of_transformers

__all__ = ["config_of_gguf", "model_of_gguf"]


def model_of_gguf(path: str, **changes: Any) -> Any:
    """Return the model that a GGUF file describes, a causal language model in float16.

    Parameters
    ----------
    path : str
        The file.
    **changes
        Entries of the configuration to replace, such as ``num_hidden_layers=2``.

    Raises
    ------
    TargetError
        If transformers is not installed, or does not know how the architecture's metadata map to its configuration.
    CheckpointError
        If the file is damaged.
    """
    from metatensor import torch_api

    torch_api.install()
    return of_transformers({"dtype": "float16", **config_of_gguf(path), **changes})


def config_of_gguf(path: str) -> dict[str, Any]:
    """Return the entries of a configuration of transformers that the header of a GGUF file has."""
    from metatensor.checkpoint import inspect

    found = inspect(path)
    metadata = found.metadata
    architecture = metadata.get("general.architecture")
    if architecture is None:
        raise TargetError(f"{path!r} does not name its architecture, so it is no language model")
    tables, kind = _tables(path, architecture)
    config: dict[str, Any] = {"model_type": kind, **(tables.GGUF_CONFIG_DEFAULTS_MAPPING.get(kind) or {})}
    for key, entry in tables.GGUF_CONFIG_MAPPING[kind].items():
        text = metadata.get(f"{architecture}.{key}")
        if text is not None and entry is not None:
            config[entry] = _value(path, f"{architecture}.{key}", text)
    table = found.tensors.get("token_embd.weight")
    if table is not None:
        config.setdefault("vocab_size", table.shape[0])
    config["tie_word_embeddings"] = "output.weight" not in found.tensors
    names = importlib.import_module("transformers.models.auto.modeling_auto").MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if kind not in names:
        raise TargetError(f"{path!r} is of the architecture {architecture!r}, which is no causal language model of transformers")
    return {**config, "architectures": [names[kind]]}


def _tables(path: str, architecture: str) -> tuple[Any, str]:
    """Return transformers' tables of names, and its name of the architecture."""
    try:
        tables: Any = importlib.import_module("transformers.integrations.ggml")
    except ModuleNotFoundError as error:
        if error.name == "transformers":
            from metatensor.cli.hints import how_to_install

            raise TargetError(how_to_install("transformers")) from None
        raise
    known = {_plain(name): name for name in tables.GGUF_CONFIG_MAPPING}
    kind = known.get(_plain(architecture))
    if kind is None or kind in ("general", "tokenizer"):
        version = importlib.import_module("transformers").__version__
        raise TargetError(f"{path!r} is of the architecture {architecture!r}; transformers {version} has no names for its "
                          f"metadata, but for {', '.join(sorted(set(known.values()) - {'general', 'tokenizer'}))}")  # fmt: skip
    return tables, kind


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "")


def _value(path: str, key: str, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if text.startswith("["):
            raise TargetError(f"{path!r}: {key} has a value for each layer, which is not supported") from None
        return text
