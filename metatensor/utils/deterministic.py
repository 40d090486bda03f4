"""The setting `fill_uninitialized_memory`. It is stored and has no effect."""

fill_uninitialized_memory = True
