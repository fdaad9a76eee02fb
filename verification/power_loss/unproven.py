"""What ends a run that could show nothing."""


class Unproven(Exception):
    """A lane could not do what it is for; the message says why, and what to do."""
