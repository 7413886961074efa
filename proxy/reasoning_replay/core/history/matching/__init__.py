"""Matching: the assignment of the items of a request to the captured turns that emitted them."""
