"""What other libraries need to know of metatensor's tensors, a module for each library."""
