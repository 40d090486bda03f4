"""Write PyTorch's distributed checkpoints without PyTorch, with objects that are pickled under the names of its classes."""

import io
import pickle

import metatensor as mt

METADATA = "torch.distributed.checkpoint.metadata"
FILESYSTEM = "torch.distributed.checkpoint.filesystem"


def maker():
    """Return a function that creates objects which are pickled under the names of PyTorch's classes."""
    made = {}

    def record(kind, module=METADATA, **members):
        cls = made.get(kind)
        if cls is None:
            cls = made[kind] = type(kind, (), {"__module__": module})
        value = cls()
        value.__dict__.update(members)
        return value

    return record


def write(folder, records, tensors, change=None):
    """Write a checkpoint to ``folder``.

    ``tensors`` maps names to (shape, {offsets: array}). ``records`` is a function that `maker` returned. ``change`` can
    first modify the table of tensors and the table of storage locations.
    """
    table, places = {}, {}
    data = io.BytesIO()
    for name, (shape, chunks) in tensors.items():
        listed = []
        for offsets, array in chunks.items():
            begin = data.tell()
            part = io.BytesIO()
            mt.save(mt.from_numpy(array.copy()), part)
            data.write(part.getvalue())
            listed.append(records("ChunkStorageMetadata", offsets=offsets, sizes=array.shape))
            index = records("MetadataIndex", fqn=name, offset=offsets, index=len(listed) - 1)
            places[index] = records("_StorageInfo", FILESYSTEM, relative_path="__0_0.distcp", offset=begin, length=data.tell() - begin)
        properties = records("TensorProperties", dtype=Dtype("float32"))
        table[name] = records("TensorStorageMetadata", properties=properties, size=shape, chunks=listed)
    if change is not None:
        change(table, places)
    (folder / "__0_0.distcp").write_bytes(data.getvalue())
    root = records("Metadata", state_dict_metadata=table, planner_data={"x": object_of("somewhere", "Unknown")}, storage_data=places)
    out = io.BytesIO()
    Pickler(out, protocol=4).dump(root)
    (folder / ".metadata").write_bytes(out.getvalue())
    return folder


class Dtype:
    """An object that is pickled as the global ``torch.<name>``."""

    def __init__(self, name):
        self.name = name


class object_of:
    """An object that is pickled as an unknown global."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Pickler(pickle._Pickler):
    """Writes classes, `Dtype` and `object_of` as globals, even if those cannot be imported."""

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Dtype):
            self.save_name("torch", obj.name)
        elif isinstance(obj, object_of):
            self.save_name(obj.module, obj.name)
        elif isinstance(obj, type):
            self.save_name(obj.__module__, obj.__qualname__)
        else:
            super().save(obj, save_persistent_id)

    def save_name(self, module, name):
        super().save(module)
        super().save(name)
        self.write(pickle.STACK_GLOBAL)
