"""Healing: what a refusal of the Gemini API means, and its cure."""
