"""
Healing: repairs before the first attempt, and cures for refused requests. All of it is pure.

`repair` fixes errors that are certain, before the first attempt. `diagnosis` classifies a refusal,
and `cure` builds the request of the one retry (`pairs`, `calls`, `ids`, `blobs`: one class of
error each). All of them edit a `draft` of the input; its items never change.
"""
