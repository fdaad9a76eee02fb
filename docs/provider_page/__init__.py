"""The page that lists every known provider, written from the profiles so that it cannot lag.

`page` puts it together, `wording` says schemes and durations as people would, `examples` makes the
program that each section shows, and runs the same calls to know what it prints.
"""
