"""The relay: takes staged messages, sends them, and writes down what became of them."""
