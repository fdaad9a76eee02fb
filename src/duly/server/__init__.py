"""``duly serve``: an application found, opened, announced, served, and drained at its end."""
