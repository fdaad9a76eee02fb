"""A deterministic simulation: duly's real classes on a clock, dice and a scheduler of its own.

One process of the machine plays several processes of duly: receivers, workers, relays, and the
world around them. Each request to the database or to the outside waits until the scheduler picks
it, by a seed; in between it crashes them, stalls them, loses replies and sets the clock. A
seed is a schedule: the same seed gives the same steps, bit for bit.
"""
