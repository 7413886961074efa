"""
Healing: repairs before the first attempt, and cures for refused requests. Pure.

`repair` fixes before the first attempt what is certain; `diagnosis` reads a refusal, and `cure`
decides what to send once more (`pairing`, `ids`, `blobs`: one kind of fault each). All of it works
on `pieces`: the items of an input that may be removed, moved, changed and added.
"""
