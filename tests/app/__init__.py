"""The application object: what it refuses, sync and async alike."""
