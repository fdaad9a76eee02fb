"""What looks at it: the command line, the demonstration."""
