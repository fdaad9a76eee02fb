"""One module for each command of ``duly``: what it is, what it takes, what it does."""
