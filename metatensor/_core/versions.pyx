"""Counters of in-place changes. A tensor shares its counter with `detach()` but not with ``.data``."""
from metatensor._core.tensor cimport Tensor, TensorExtra, VersionCounter, extra_of, over_storage, shared_versions, version_of
from metatensor._core.types cimport T_CONJ, T_DISTRIBUTED, T_DUAL, T_NEG
from metatensor._core.late import later


cdef Tensor detached(Tensor t):
    if t.flags & T_DISTRIBUTED:
        return <Tensor>later("alias_of")(t)
    cdef Tensor d = over_storage(t.storage, t.dtype, t.ndim, t.sizes, t.strides, t.offset)
    cdef VersionCounter versions
    d.flags |= t.flags & (T_CONJ | T_NEG)
    if t.extra is not None or t.base is not None:
        versions = shared_versions(t)
        if versions is not None:
            extra_of(d).versions = versions
    return d


cdef Tensor with_own_versions(Tensor t):
    """Return what ``t.data`` is: a detached alias that counts its changes by itself."""
    cdef Tensor d = detached(t)
    extra_of(d).versions = VersionCounter.__new__(VersionCounter)
    return d


def data_alias(Tensor t not None):
    """Return ``t.data`` without a call in a trace. Programs recognize the writes through it; see `uncounted_writes`."""
    return with_own_versions(t)


cdef Tensor carrying(Tensor t, Tensor source):
    """Attach the tangents of `source` to `t`, a detached alias of it. Return `t`."""
    if source.flags & T_DUAL and source.extra is not None and (<TensorExtra>source.extra).tangents is not None:
        extra_of(t).tangents = dict((<TensorExtra>source.extra).tangents)
        t.flags |= T_DUAL
    return t


cdef VersionCounter own_versions(Tensor t):
    """Give `t` and its base their own counter, which continues from the current version.

    It survives a change of storage.
    """
    cdef Tensor owner = t if t.base is None else <Tensor>t.base
    cdef TensorExtra extra = extra_of(owner)
    cdef VersionCounter versions
    if extra.versions is None:
        versions = VersionCounter.__new__(VersionCounter)
        versions.count = version_of(t)
        extra.versions = versions
    return extra.versions
