"""Healing: what a refusal of the Messages API means, and its cure."""
