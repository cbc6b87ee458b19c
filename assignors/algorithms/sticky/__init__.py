"""Kafka's sticky assignors: ``sticky`` (KIP-54, eager) and ``cooperative-sticky`` (KIP-429)."""

from assignors.algorithms.sticky.entry import assign_cooperative_sticky, assign_sticky

__all__ = ["assign_cooperative_sticky", "assign_sticky"]
