"""Datasets, samplers and the loader that turns them into batches."""

from metatensor.torch_api._lazy import attributes
from metatensor.torch_api.torch.utils.data._utils.collate import default_collate, default_convert
from metatensor.torch_api.torch.utils.data._utils.worker import get_worker_info
from metatensor.torch_api.torch.utils.data.dataloader import DataLoader, _DatasetKind
from metatensor.torch_api.torch.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from metatensor.torch_api.torch.utils.data.distributed import DistributedSampler
from metatensor.torch_api.torch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "_DatasetKind", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("_utils", "dataloader", "dataset", "distributed", "sampler"))
