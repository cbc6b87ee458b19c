"""Decoders: bytes of captures -> rows. Pure Python, no Spark session."""
