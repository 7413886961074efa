"""Healing: what a refusal of the Chat Completions API means, and its cure."""
