"""How a JVM hashes and orders, as far as assignments depend on it."""
