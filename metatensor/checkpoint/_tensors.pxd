from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport Tensor
from metatensor.checkpoint._pickle cimport Machine
from metatensor.checkpoint._values cimport Marker
from metatensor.checkpoint._zip cimport Directory


cdef class StorageType(Marker):
    cdef readonly str name
    cdef readonly DType dtype           # None where it is bytes


cdef class StorageRef(Marker):
    cdef readonly Storage storage
    cdef readonly DType dtype           # of its elements; None where it is bytes
    cdef readonly str key
    cdef readonly str location
    cdef readonly long long begin       # where in the storage it begins, in bytes; not 0 for a view alone
    cdef readonly long long nbytes      # its bytes from there on


cdef class TensorMachine(Machine):
    cdef object place
    cdef Device fixed
    cdef Directory directory            # None where storages follow the pickle
    cdef str prefix                     # of the names of members that are storages
    cdef readonly dict storages         # key -> the StorageRef of the whole
    cdef readonly dict views            # (key, view key) -> StorageRef
    cdef readonly list fillings         # (tensor, what its values are)

    cdef Tensor tensor(self, object ref, DType dtype, object offset, object sizes, object strides, object grad)
    cdef StorageRef view(self, StorageRef whole, object view)
    cdef StorageRef typed(self, StorageRef whole, DType dtype)
    cdef int lazy(self, Tensor made, object metadata) except -1
