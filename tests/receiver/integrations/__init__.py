"""Each adapter inside its real framework, under a real server in a process of its own."""
