"""The egress guard against a hostile world: addresses, names, redirects, proxies and receivers."""
