"""
Healing: repairs before the first attempt, and cures for refused requests. All of it is pure.

`repair` fixes errors that are certain, before the first attempt. `diagnosis` classifies a refusal,
and `cure` builds the request of the one retry (`pairing`, `ids`, `blobs`: one class of error each).
All of them edit `pieces`: the items of an input, which can be removed, moved, changed and added.
"""
