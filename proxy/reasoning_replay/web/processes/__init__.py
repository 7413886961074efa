"""Processes: several workers behind one port."""
