"""The kernel: words, values and rules that every stage shares. No input, no output, no driver."""
