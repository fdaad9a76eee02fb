"""The benchmarks measure what they say; no test bounds a time."""
