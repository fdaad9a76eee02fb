"""The pytest plugin, and the functions below it: what users test their applications with."""
