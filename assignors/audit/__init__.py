"""Comparison of generations: movements, revocations, triggers and verdicts."""
