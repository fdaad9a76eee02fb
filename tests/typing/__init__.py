"""Types as a promise: applications that mypy and pyright must agree with, or refuse."""
