"""Exchange tensors with other libraries: DLPack, array and buffer protocols, storages, pickles."""
