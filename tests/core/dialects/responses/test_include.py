"""Include edit: requests encrypted reasoning once, and changes nothing else in a request."""

import json

import pytest
from hypothesis import given
from reasoning_replay.core.dialects.responses.include import INCLUDE, exclude_edit, include_edit
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.wire import json_spans

from tests.core.documents import Written, arrays, objects, values
from tests.fast_lane import examples

ASKED = f'"{INCLUDE}"'.encode()


def merged(body: bytes) -> bytes:
    """Return a body as it is sent to upstream."""
    edit = include_edit(read_request(body, {}))
    return json_spans.apply(body, [edit] if edit is not None else [])


# (body from the client, body for upstream)
MERGED = [
    pytest.param(b"{}", b'{"include":[%s]}', id="empty"),
    pytest.param(b'\n{ "model" : "m" }', b'\n{"include":[%s], "model" : "m" }', id="absent"),
    pytest.param(b'{"include":[]}', b'{"include":[%s]}', id="empty-list"),
    pytest.param(b'{"include":[ ]}', b'{"include":[%s ]}', id="empty-list-with-space"),
    pytest.param(b'{"include" : null}', b'{"include" : [%s]}', id="null"),
    pytest.param(
        b'{"include":[ "file_search_call.results"]}',
        b'{"include":[%s, "file_search_call.results"]}',
        id="others",
    ),
    pytest.param(b'{"include":[[],1.0e1]}', b'{"include":[%s,[],1.0e1]}', id="odd-ones"),
    pytest.param(
        b'{"n":1.0e0,"\\u0069nclude":[1]}',
        b'{"n":1.0e0,"\\u0069nclude":[%s,1]}',
        id="key-spelled-by-an-escape",
    ),
]
ALREADY = [
    pytest.param(b'{"include":["reasoning.encrypted_content"]}', id="there"),
    pytest.param(b'{"include":["x", "reasoning\\u002eencrypted_content"]}', id="there-escaped"),
]
NOT_OURS = [
    pytest.param(b'{"include":"reasoning.encrypted_content"}', id="string"),
    pytest.param(b'{"include":{}}', id="object"),
    pytest.param(b'{"include":false}', id="false"),
    pytest.param(b'{"include":5}', id="number"),
]
NUMBERS = [
    pytest.param(b'{"include":[1e999]}', b'{"include":[%s,1e999]}', id="too-large"),
    pytest.param(
        b'{"include":[' + b"1" * 5000 + b"]}",
        b'{"include":[%s,' + b"1" * 5000 + b"]}",
        id="too-long",
    ),
]


@pytest.mark.parametrize(("body", "want"), [*MERGED, *NUMBERS])
def test_the_entry_is_merged_into_the_clients_list(body: bytes, want: bytes) -> None:
    """The added entry comes first; the entries of the client keep their spelling."""
    assert merged(body) == want % ASKED


@pytest.mark.parametrize("body", ALREADY)
def test_an_entry_already_present_is_not_added(body: bytes) -> None:
    """Any spelling of the entry counts, and the body is not copied."""
    assert merged(body) is body


@pytest.mark.parametrize("body", NOT_OURS)
def test_an_invalid_include_is_left_to_upstream(body: bytes) -> None:
    """A value of the wrong type is not edited."""
    assert merged(body) is body


@given(objects(values | arrays(values)))
@examples(30)
def test_only_include_changes(written: Written) -> None:
    """A second merge changes nothing, and every other value stays."""
    once = merged(written.text)
    got = json.loads(once)

    assert merged(once) is once
    assert got.pop("include") == [INCLUDE]
    assert got == written.value


# (body as sent, body after the model refused the entry; None: the entry is not in it)
EXCLUDED = [
    pytest.param(b'{"include":[%s]}', b"{}", id="alone"),
    pytest.param(b'{ "n":1.0e0, "include" : [ %s ] }', b'{ "n":1.0e0 }', id="last-member"),
    pytest.param(b'{"include":[%s],"n":1.0e0}', b'{"n":1.0e0}', id="first-member"),
    pytest.param(b'{"include":["x", %s,1.0e0]}', b'{"include":["x",1.0e0]}', id="among-others"),
    pytest.param(b'{"include":[%s,%s]}', b"{}", id="twice"),
    pytest.param(b'{"include":["x"]}', None, id="others"),
    pytest.param(b'{"include":[]}', None, id="empty"),
    pytest.param(b'{"include":null}', None, id="null"),
    pytest.param(b'{"include":%s}', None, id="string"),
    pytest.param(b"{}", None, id="absent"),
]


@pytest.mark.parametrize(("sent", "want"), EXCLUDED)
def test_the_refused_entry_is_removed_from_include(sent: bytes, want: bytes | None) -> None:
    """Other entries stay; an empty list is removed as a whole."""
    body = sent.replace(b"%s", ASKED)
    edit = exclude_edit(read_request(body, {}))

    assert (json_spans.apply(body, [edit]) if edit is not None else None) == want


@examples(100)
@given(objects(values))
def test_excluding_undoes_including(written: Written) -> None:
    """The result is the original value, except that an empty list may be left out."""
    request = read_request(written.text, {})
    added = include_edit(request)
    if added is None:
        return
    asking = json_spans.apply(written.text, [added])
    edit = exclude_edit(read_request(asking, {}))
    assert edit is not None
    before, after = json.loads(written.text), json.loads(json_spans.apply(asking, [edit]))

    assert after == before or after == {k: v for k, v in before.items() if k != "include"}
