"""Build the model of a ``config.json`` with the library that wrote it, transformers or diffusers, on metatensor."""

from __future__ import annotations

import functools
import importlib
import json
import os
from typing import Any

from metatensor.cli.hints import how_to_install

__all__ = ["TargetError", "config_in", "model_of_config", "of_transformers", "without_cache"]


class TargetError(Exception):
    """The target does not name a model. The message states the reason."""


def config_in(target: str) -> str | None:
    """Return the path of the ``config.json`` in a folder, or of a JSON file itself. None if there is none."""
    if os.path.isdir(target):
        path = os.path.join(target, "config.json")
        return path if os.path.isfile(path) else None
    return target if target.endswith(".json") and os.path.isfile(target) else None


def model_of_config(path: str, **changes: Any) -> Any:
    """Return the model that a configuration of transformers or diffusers describes.

    The model has no weights; they are not read. Code that is not part of the library is not run.

    Parameters
    ----------
    path : str
        The JSON file.
    **changes
        Entries of the configuration to replace, such as ``num_hidden_layers=2``.

    Raises
    ------
    TargetError
        If the file is not such a configuration, the library is not installed, or it does not have the class.
    """
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        raise TargetError(f"{path!r} cannot be read as JSON: {error}") from None
    if not isinstance(config, dict) or not ("model_type" in config or "_class_name" in config):
        raise TargetError(f"{path!r} has neither model_type (transformers) nor _class_name (diffusers)")
    from metatensor import torch_api

    torch_api.install()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    known = {key: value for key, value in config.items() if not key.startswith("auto_map")} | changes
    return _of_diffusers(known) if "_class_name" in config else of_transformers(known)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            raise TargetError(how_to_install(name)) from None
        raise


def _of_diffusers(config: dict[str, Any]) -> Any:
    diffusers = _library("diffusers")
    found: Any = getattr(diffusers, str(config["_class_name"]), None)
    if not hasattr(found, "from_config"):
        raise TargetError(f"diffusers {diffusers.__version__} has no model {config['_class_name']!r}")
    return found.from_config(config)


def of_transformers(config: dict[str, Any]) -> Any:
    """Return the model of a configuration of transformers. `torch_api` must be installed."""
    transformers = _library("transformers")
    _one_sequence_per_row()
    kind, names = config["model_type"], config.get("architectures") or []
    try:
        made = transformers.AutoConfig.for_model(**config)
    except ValueError:
        raise TargetError(f"transformers {transformers.__version__} does not know the model_type {kind!r}") from None
    if not names:
        return transformers.AutoModel.from_config(made)
    found = getattr(transformers, str(names[0]), None)
    if found is None:
        raise TargetError(f"transformers {transformers.__version__} has no model {names[0]!r}")
    return found._from_config(made)


def _one_sequence_per_row() -> None:
    """Make transformers treat each row of a batch as one sequence if the positions have no values.

    Without a mask and a cache, it reads the values of the positions, which meta lacks, to find several sequences in a row.
    """
    masks: Any = importlib.import_module("transformers.masking_utils")
    found = getattr(masks, "find_packed_sequence_indices", None)
    if found is None or getattr(found, "_metatensor", False):
        return

    @functools.wraps(found)
    def find(position_ids: Any) -> Any:
        return None if position_ids.is_meta else found(position_ids)

    find._metatensor = True  # type: ignore[attr-defined]
    masks.find_packed_sequence_indices = find


def without_cache(model: Any) -> Any:
    """Return a model that does not collect keys and values for later tokens, which training does not use."""
    config: Any = getattr(model, "config", None)
    if getattr(config, "use_cache", False) is True:
        config.use_cache = False
    return model
