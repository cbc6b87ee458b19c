"""Generations compared: movements, revocations, reasons and verdicts."""
