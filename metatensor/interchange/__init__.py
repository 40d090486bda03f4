"""Take tensors from other libraries and give them away: DLPack, array and buffer protocols, storages, pickles."""
