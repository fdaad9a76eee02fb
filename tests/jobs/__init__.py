"""Jobs: handlers, enqueue, effects, schedules, dead letters."""
