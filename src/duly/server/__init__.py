"""The server of ``duly serve``: listens, serves, announces itself, and drains. Internal."""
