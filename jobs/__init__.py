"""The pipeline: one file a stage, each a frame -> frame story."""
