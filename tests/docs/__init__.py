"""The pages and the examples, run as a reader would."""
