"""
Healing: repairs before the first attempt, and cures for refused requests. All of it is pure.

`normal_form.normal` is the one edit of a history, made of rules (`copies`, `ids`, `pairs`, `calls`,
`blobs`). `diagnosis` classifies a refusal, which chooses the rule, what it blames, and the form
that upstream takes: `cure` makes that edit. `learned` makes it again before the first attempt, as
`repair` does with the rules whose faults are certain. All of them edit a `draft` of the input; its
items never change.
"""
