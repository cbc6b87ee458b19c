"""How a JVM hashes and orders, where an assignor's answer depends on it."""
