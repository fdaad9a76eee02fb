"""Stage 1 of 5: a request arrives. Bytes in under limits, one true answer out."""
