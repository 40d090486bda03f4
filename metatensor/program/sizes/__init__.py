"""Programs with named sizes: expressions, how they are found, and the programs that have them. docs/sizes.md describes these."""
