"""
Healing: cures for refused requests to the Messages API. All of it is pure.

`diagnosis` classifies a refusal. `cure` builds the request of the one retry.
"""
