from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout
from metatensor._core.storage cimport Storage
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t
from metatensor.checkpoint._pickle cimport Machine
from metatensor.checkpoint._values cimport Marker
from metatensor.checkpoint._zip cimport Directory


cdef struct Reader:
    const unsigned char* p
    const unsigned char* end
    bint ok                             # off once something was not as expected; then nothing more is taken


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
    cdef dict sources                   # id of what has been paid for as the values of a tensor -> itself

    cdef Tensor tensor(self, object ref, DType dtype, object offset, object sizes, object strides, object grad)
    cdef StorageRef view(self, StorageRef whole, object view)
    cdef Tensor placed(self, StorageRef ref, DType dtype, Layout* lay, bint grad)
    cdef StorageRef storage(self, StorageType kind, str key, str location, long long numel)
    cdef object remembered(self, Reader* r)
    cdef int forgotten(self, Reader* r) except -1
    cdef int read_ints(self, Reader* r, dim_t* into) except -1
    cdef StorageRef typed(self, StorageRef whole, DType dtype)
    cdef int lazy(self, Tensor made, object metadata) except -1
