"""The fault rigs of verification/ are themselves tested: each can fail."""
