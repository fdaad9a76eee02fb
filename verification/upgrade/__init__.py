"""Two releases on one database under load, while the newer one migrates it.

`python -m verification.upgrade --help` says how to run it.
"""
