"""Dialect of Gemini's own API: `generateContent`."""
