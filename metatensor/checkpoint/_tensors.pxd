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
    bint ok                             # cleared at the first unexpected opcode; then nothing more is read


cdef class StorageType(Marker):
    cdef readonly str name
    cdef readonly DType dtype           # None if untyped


cdef class StorageRef(Marker):
    cdef readonly Storage storage
    cdef readonly DType dtype           # dtype of its elements; None if untyped
    cdef readonly str key
    cdef readonly str location
    cdef readonly long long begin       # byte offset in the storage; nonzero only for views
    cdef readonly long long nbytes      # size in bytes from `begin` on


cdef class TensorMachine(Machine):
    cdef object place
    cdef Device fixed
    cdef Directory directory            # None if storages follow the pickle
    cdef str prefix                     # name prefix of members that are storages
    cdef readonly dict storages         # key -> StorageRef of the whole storage
    cdef readonly dict views            # (key, view key) -> StorageRef
    cdef readonly list fillings         # (tensor, source): the source of its values is an array or a tensor
    cdef dict sources                   # id -> array or storage already charged as the values of a tensor

    cdef Tensor tensor(self, object ref, DType dtype, object offset, object sizes, object strides, object grad)
    cdef StorageRef view(self, StorageRef whole, object view)
    cdef Tensor placed(self, StorageRef ref, DType dtype, Layout* lay, bint grad)
    cdef StorageRef storage(self, StorageType kind, str key, str location, long long numel)
    cdef object remembered(self, Reader* r)
    cdef int forgotten(self, Reader* r) except -1
    cdef int read_ints(self, Reader* r, dim_t* into) except -1
    cdef StorageRef typed(self, StorageRef whole, DType dtype)
    cdef int lazy(self, Tensor made, object metadata) except -1
