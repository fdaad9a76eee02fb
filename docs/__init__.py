"""The pages of the documentation, and the program that writes one of them."""
