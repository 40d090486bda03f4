"""Programs with named sizes: expressions, the search for them, and programs that contain them. See docs/sizes.md."""
