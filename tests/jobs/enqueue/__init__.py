"""Jobs as they are put into the queue: by key, in bulk, and in transactions of the user's."""
