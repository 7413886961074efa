"""Checks of requests: the located values of any JSON document, and the scope of any headers."""

import re

from multidict import CIMultiDict
from reasoning_replay.core.dialects.responses.include import INCLUDE, exclude_edit, include_edit
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.tenancy.jwt_claims import claims_of
from reasoning_replay.core.tenancy.scope import Scoping, account_of, hint_of, read_parts
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.json_spans import Unspliceable

from tests.fuzz.inputs import read
from tests.fuzz.naive import is_deep, json_of, less, meaning, spliced

# Half of a character, or a byte that is not UTF-8.
_HALF = re.compile("[\ud800-\udfff]")
# The sources of a tenant, as in the setting.
_SOURCES = ("credential", "claims:tid+oid", "header:x-tenant", "credential,header:x-a")
_SCOPINGS = [Scoping("http://upstream", "secret", read_parts(one)) for one in _SOURCES]
_OTHERS = [Scoping("http://upstream", "other", read_parts(one)) for one in _SOURCES]


def document(data: bytes) -> None:
    """Check that spans match a decoder's values, and that all bytes outside of edits stay."""
    dice, body = read(data)
    try:
        found = json_spans.members(body)
    except Unspliceable:
        _is_unreadable(body)
        return
    if is_deep(body):
        return  # too deep for the model
    tree = json_of(body)
    assert list(found) == [key for key, _ in tree]
    for (_, value), at in zip(tree, found.values(), strict=True):
        raw = body[at.start : at.end]
        assert meaning(raw) == value
        words = value if isinstance(value, str) else None
        assert json_spans.text(raw) == words or json_spans.text(raw) is None is not _HALF.search(
            words or ""
        )
        if raw[:1] == b"[":
            places = json_spans.elements(body, at.start, at.end)
            assert [meaning(body[a:b]) for a, b in places] == value
    keys = [key for key in found if dice.random() < 0.5]
    left = json_spans.without(body, keys)
    assert (left is body) == (not keys)
    assert json_of(left) == less(tree, keys)
    for key in keys:
        edit = json_spans.remove(body, found, key)
        assert spliced(body, [edit])[0] == json_spans.apply(body, [edit])
        assert not edit.new
    _judge_include(body)


def _is_unreadable(body: bytes) -> None:
    """Check that only lone surrogates are replaced, and that a second pass changes nothing."""
    mended = surrogates.readable(body)
    assert len(mended) == len(body)
    assert surrogates.readable(mended) == mended
    changed = [n for n in range(len(body)) if body[n] != mended[n]]
    assert all(body[max(0, n - 5) : n + 1].count(b"\\u") for n in changed)


def _judge_include(body: bytes) -> None:
    try:
        request = read_request(body, {})
    except Unspliceable:
        return
    assert request.body is body
    edit = include_edit(request)
    if edit is None:
        return
    asking = json_spans.apply(body, [edit])
    assert spliced(body, [edit]) == (asking, body)
    assert INCLUDE in dict(json_of(asking))["include"]
    again = read_request(asking, {})
    assert include_edit(again) is None
    taken = exclude_edit(again)
    assert taken is not None
    before, after = (
        less(json_of(one), ["include"]) for one in (body, json_spans.apply(asking, [taken]))
    )
    assert before == after


def scope(data: bytes) -> None:
    """Check that the scope depends on the headers and the settings, and on nothing else."""
    headers = _headers(data)
    shouted = CIMultiDict((n.upper() if n.isascii() else n, v) for n, v in headers.items())
    for ours, other in zip(_SCOPINGS, _OTHERS, strict=True):
        found = ours.of(headers)
        assert ours.of(headers) == ours.of(shouted) == found
        if found is not None:
            assert len(found) == 16
            assert other.of(headers) != found
    for value in headers.values():
        claims = claims_of(value, ("tid", "oid"))
        assert claims is None or len(claims) == 3
    account_of(headers)
    hint_of(headers, lambda _: "")


def _headers(data: bytes) -> CIMultiDict[str]:
    lines = read(data).payload.decode("latin-1").split("\n")
    pairs = [line.partition(":") for line in lines]
    return CIMultiDict((name.strip(), value.strip()) for name, _, value in pairs)
