"""The receive path under faults: what is answered 2xx is kept, once, and nothing leaks."""
