"""Interfaces of other engines over Lamina's: a program moves here by its import line. What differs is in docs/move.md."""
