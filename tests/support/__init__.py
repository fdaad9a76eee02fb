"""What tests are made of: servers, processes, proxies, clocks."""
