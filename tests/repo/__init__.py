"""What the repository as a whole keeps to."""
