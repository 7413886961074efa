"""
Healing: repairs before the first attempt, and cures for refused requests. Pure.

`repair` mends before the first try what is certain; `diagnosis` reads a refusal, and `cure`
decides what to send once more (`pairing`, `ids`, `blobs`: one kind of fault each). All of it works
on `pieces`: the items of an input that may be left out, moved, mended and put in.
"""
