"""The contenders, a module each: how it makes its tables, stages a message, and relays."""
