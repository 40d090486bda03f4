"""Whether memory that is not initialised is filled where algorithms are to be deterministic; kept, without effect."""

fill_uninitialized_memory = True
