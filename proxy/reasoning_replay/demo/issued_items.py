"""
Issued items: what the scripted API has emitted, and what it therefore refuses in an input.

It refuses a request, with the error messages of OpenAI's API, if

- an item is sent without the reasoning that led to it,
- reasoning is not directly followed by the item that it led to,
- reasoning has an unknown id and no encrypted content, or encrypted content that was not issued,
- it refers to an item or a response that the API does not store.
"""

import itertools
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from reasoning_replay.demo.scripted_model import Item

__all__ = ["IssuedItems", "Refused", "keep"]

# Most entries that are kept of each kind; the oldest ones are dropped.
ITEMS_MAX: Final = 10_000
RESPONSES_MAX: Final = 500


class Refused(Exception):
    """
    A refused request.

    Attributes:
        status: The status of the response.
        error: The error in the API's format.
    """

    def __init__(
        self, status: int, message: str, code: str | None = None, param: str | None = "input"
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = {
            "message": message,
            "type": "invalid_request_error",
            "param": param,
            "code": code,
        }


class IssuedItems:
    """The newest items and responses that an API has issued."""

    def __init__(self) -> None:
        self._followers: dict[str, Item] = {}  # reasoning id -> the item that it led to
        self._reasoning: dict[str, str] = {}  # item id -> id of the reasoning that led to it
        self._ids: dict[str, str] = {}  # issued encrypted content -> id of its reasoning item
        self._stored: dict[str, Item] = {}  # item id -> the item
        self._histories: dict[str, list[Item]] = {}  # response id -> its input and its output

    def issue(self, output: Sequence[Item]) -> None:
        """Record the complete output of a response."""
        for reasoning, item in itertools.pairwise(output):
            keep(self._followers, reasoning["id"], item, ITEMS_MAX)
            keep(self._reasoning, item["id"], reasoning["id"], ITEMS_MAX)
            keep(self._ids, reasoning["encrypted_content"], reasoning["id"], ITEMS_MAX)

    def store(self, response: Item, history: list[Item]) -> None:
        """Store a response with its history, so that requests can refer to both."""
        for item in response["output"]:
            keep(self._stored, item["id"], item, ITEMS_MAX)
        keep(self._histories, response["id"], [*history, *response["output"]], RESPONSES_MAX)

    def resolve(self, body: Item, given: Sequence[Item]) -> list[Item]:
        """
        Return the whole history of a request, references resolved.

        Raises:
            Refused: It refers to something that is not stored.
        """
        before: list[Item] = []
        if previous := body.get("previous_response_id"):
            if previous not in self._histories:
                raise _no_response(previous)
            before = self._histories[previous]
        items = []
        for item in given:
            if item.get("type") == "item_reference":
                if item.get("id") not in self._stored:
                    raise _not_found(str(item.get("id")))
                items.append(self._stored[item["id"]])
            else:
                items.append(item)
        return [*before, *items]

    def judge(self, items: Sequence[Item]) -> None:
        """
        Check that each item has its reasoning, and each reasoning its item.

        Raises:
            Refused: An item is alone, or was not issued.
        """
        before: set[str] = set()
        for item, following in zip(items, [*items[1:], {}], strict=True):
            item_id = item.get("id") or ""
            if item.get("type") == "reasoning":
                blob: str = item.get("encrypted_content") or ""
                issued_for = self._ids.get(blob, "") if blob else item_id
                if blob and (not issued_for or issued_for != (item_id or issued_for)):
                    raise _not_verified(item_id, blob)
                if issued_for not in self._followers:
                    raise _not_found(item_id)
                item_id = issued_for
                if not _is_same(following, self._followers[item_id]):
                    raise _no_follower(item_id)
            elif (reasoning_id := self._reasoning.get(item_id)) and reasoning_id not in before:
                raise _no_reasoning(item_id, item.get("type", "message"), reasoning_id)
            before.add(item_id)


def keep(kept: dict[Any, Any], key: object, value: object, most: int) -> None:
    """Add an entry; drop the oldest one above `most`."""
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


def _is_same(item: Item, emitted: Item) -> bool:
    """Return whether a client's item is the emitted one; clients may omit its id."""
    if item.get("id"):
        return bool(item["id"] == emitted["id"])
    kind = item.get("type", "message")
    return kind == emitted["type"] and item.get("call_id") == emitted.get("call_id")


def _not_found(item_id: str) -> Refused:
    words = f"Item with id '{item_id}' not found. Remove this item from your input and try again."
    return Refused(HTTPStatus.NOT_FOUND, words)


def _no_response(response_id: str) -> Refused:
    return Refused(
        HTTPStatus.BAD_REQUEST,
        f"Previous response with id '{response_id}' not found.",
        "previous_response_not_found",
        "previous_response_id",
    )


def _not_verified(item_id: str, blob: str) -> Refused:
    shown = item_id or f"{blob[:4]}...{blob[-4:]}"
    words = f"The encrypted content for item {shown} could not be verified."
    return Refused(HTTPStatus.BAD_REQUEST, words, "invalid_encrypted_content")


def _no_follower(item_id: str) -> Refused:
    words = (
        f"Item '{item_id}' of type 'reasoning' was provided without its required following item."
    )
    return Refused(HTTPStatus.BAD_REQUEST, words)


def _no_reasoning(item_id: str, kind: str, reasoning_id: str) -> Refused:
    words = (
        f"Item '{item_id}' of type '{kind}' was provided without its required 'reasoning' item: "
        f"'{reasoning_id}'."
    )
    return Refused(HTTPStatus.BAD_REQUEST, words)
