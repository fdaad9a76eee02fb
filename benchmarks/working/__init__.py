"""Jobs, one worker process each: the queues that people use, two loops by hand, and duly.

Every contender gets a database of its own on one PostgreSQL at full durability, the same number of
the same jobs, and a process of its own, with its own Python where it is somebody else's library.
What is left to differ is how each takes a job from its table and how it writes that it is done.
"""
