"""Ways in: one file a source. Each reads raw rows with Spark and decodes one record in plain Python."""
