"""``duly worker``: which jobs of an application run where, and a worker minded until its end."""
