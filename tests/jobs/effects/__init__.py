"""External steps of a job: the intent is written before, the outcome after."""
