"""One module for each contender, each imported only under the Python that has its library.

Each does what its own documentation tells a user to do, with the settings that were fastest here.
"""
