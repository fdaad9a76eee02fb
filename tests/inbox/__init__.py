"""The inbox: accepting, forgetting, retention."""
