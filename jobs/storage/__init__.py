"""Tables: the only package that uses Delta."""
