"""
Refusals of the API, word for word.

Texts, types, params and codes are those of recorded and publicly reported errors; the few that are
not confirmed are marked. The functions insert the given ids.
"""

from msgspec import Struct

from tests.standin.quirks import Foreign, NotFound

__all__ = ["Envelope", "Refusal"]

_ENDS_SHOWN = 4
"""The API shows the first and the last four characters of a refused blob."""


class ErrorBody(Struct, frozen=True):
    """The four members of an error, always all present."""

    message: str
    type: str
    param: str | None
    code: str | None


class Envelope(Struct, frozen=True):
    """The body of an error response."""

    error: ErrorBody


class Refusal(Struct, frozen=True):
    """An error and its form on the wire: JSON, or the bare message."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    is_text: bool = False

    @property
    def envelope(self) -> Envelope:
        """The JSON body of the error."""
        return Envelope(ErrorBody(self.message, self.type, self.param, self.code))


def missing_reasoning(item_id: str, item_type: str, reasoning_id: str) -> Refusal:
    """Refuse an item that came without the reasoning that led to it."""
    return Refusal(
        400,
        f"Item '{item_id}' of type '{item_type}' was provided without its required 'reasoning'"
        f" item: '{reasoning_id}'.",
        param="input",
    )


def missing_follower(reasoning_id: str) -> Refusal:
    """Refuse reasoning that is not followed by the item it led to."""
    return Refusal(
        400,
        f"Item '{reasoning_id}' of type 'reasoning' was provided without its required following"
        " item.",
        param="input",
    )


def duplicate(item_id: str) -> Refusal:
    """Refuse an id that occurs twice. Type and param of the native error are not confirmed."""
    return Refusal(
        400,
        f"Duplicate item found with id {item_id}. Remove duplicate items from your input and try"
        " again.",
        param="input",
    )


def not_found(item_id: str, form: NotFound = "api", *, never_kept: bool = False) -> Refusal:
    """
    Refuse an id that stands for a stored item when none is stored.

    Args:
        item_id: The id.
        form: See Quirks.
        never_kept: Whether the organization has zero data retention; in that form the text after
            its second sentence is not confirmed.
    """
    why = (
        "Items are not persisted for Zero Data Retention organizations. Remove this item from"
        " your input and try again."
        if never_kept
        else "Items are not persisted when `store` is set to false. Try again with `store` set to"
        " true, or remove this item from your input."
    )
    return Refusal(
        400 if form == "azure" else 404,
        f"Item with id '{item_id}' not found. {why}",
        param="input",
        is_text=form == "text",
    )


def bad_ciphertext(blob: str, *, readable: bool) -> Refusal:
    """Refuse a blob: damaged if not `readable`, else made by a model of another family."""
    reason = "" if readable else " Reason: Encrypted content could not be decrypted or parsed."
    shown = f"{blob[:_ENDS_SHOWN]}...{blob[-_ENDS_SHOWN:]}"
    return _ciphertext(f"The encrypted content {shown} could not be verified.{reason}")


def foreign_ciphertext(item_id: str, blob: str, form: Foreign = "organization") -> Refusal:
    """Refuse a blob that was issued to another caller, in one of the forms of Quirks."""
    match form:
        case "organization":
            return _of_item(
                item_id,
                "Encrypted content organization_id did not match the target organization.",
            )
        case "item":
            return _of_item(item_id, "Encrypted content could not be decrypted or parsed.")
        case "masked":
            return bad_ciphertext(blob, readable=True)
        case "caller":
            return Refusal(400, "reasoning `encrypted_content` was not issued to this caller")
        case "resource":
            return Refusal(
                400,
                "The requested item was created under a different Azure OpenAI resource. Use the"
                " same resource that created the item to access it.",
            )


def moved_ciphertext(item_id: str) -> Refusal:
    """Refuse a blob that was issued for another item id."""
    return _of_item(item_id, "Encrypted content item_id did not match the target item id.")


def _of_item(item_id: str, reason: str) -> Refusal:
    return _ciphertext(
        f"The encrypted content for item {item_id} could not be verified. Reason: {reason}"
    )


def _ciphertext(message: str) -> Refusal:
    return Refusal(400, message, code="invalid_encrypted_content")


def unanswered_call(noun: str, call_id: str) -> Refusal:
    """Refuse a call without its output; `noun` is "function call" in the confirmed text."""
    return Refusal(400, f"No tool output found for {noun} {call_id}.", param="input")


def orphan_output(noun: str, call_id: str) -> Refusal:
    """Refuse an output without its call; `noun` is "function call" in the confirmed text."""
    return Refusal(
        400, f"No tool call found for {noun} output with call_id {call_id}.", param="input"
    )


def ciphertext_unsupported() -> Refusal:
    """Refuse `include: reasoning.encrypted_content` on a model that does not reason."""
    return Refusal(400, "Encrypted content is not supported with this model.", param="include")


def ciphertext_not_kept() -> Refusal:
    """Refuse the same `include` on retrieval."""
    return Refusal(
        400, "Encrypted content cannot be requested for persisted responses.", param="include"
    )


def blobs_unsupported() -> Refusal:
    """Refuse `encrypted_content` where no model has any (vLLM)."""
    return Refusal(400, "Encrypted content is not supported.")


def missing_text() -> Refusal:
    """Refuse a call without the text of the reasoning that led to it (DeepSeek)."""
    said = "The `reasoning_text` in the thinking mode must be passed back to the API."
    return Refusal(400, said, code="invalid_request_error")


def bad_message_id() -> Refusal:
    """Refuse the id of a message that does not begin with "msg_" (gateways over DeepSeek)."""
    return Refusal(400, "Invalid 'id': message id must be a string starting with 'msg_'")


def reasoning_unsupported() -> Refusal:
    """Refuse reasoning items in the input of a model that does not reason."""
    return Refusal(
        400,
        "Reasoning input items can only be provided to a reasoning or computer use model. Remove"
        " reasoning items from your input and try again.",
        param="input",
    )


def unknown_previous(response_id: str) -> Refusal:
    """Refuse to continue a response that is not stored for this caller."""
    return Refusal(
        400,
        f"Previous response with id '{response_id}' not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def unknown_response(response_id: str) -> Refusal:
    """Refuse to return a response that is not stored for this caller; text not confirmed."""
    return Refusal(404, f"Response with id '{response_id}' not found.")


def two_histories() -> Refusal:
    """Refuse both kinds of server-side history at once; text not confirmed."""
    return Refusal(
        400,
        "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are"
        " only providing one of them.",
        param="previous_response_id",
        code="mutually_exclusive_parameters",
    )


def wrong_prefix(param: str, item_id: str, prefix: str) -> Refusal:
    """Refuse an item id that does not begin with the prefix of its type."""
    return _invalid(param, f"'{item_id}'. Expected an ID that begins with '{prefix}'.")


def bad_characters(param: str, item_id: str) -> Refusal:
    """Refuse an item id that is empty or holds anything but letters, digits, "_" and "-"."""
    return _invalid(
        param,
        f"'{item_id}'. Expected an ID that contains letters, numbers, underscores, or dashes, but"
        " this value contained additional characters.",
    )


def too_long(param: str, limit: int, length: int) -> Refusal:
    """Refuse an id that is longer than its limit; limits confirmed, text not."""
    return _invalid(
        param,
        f"string too long. Expected a string with maximum length {limit}, but got a string with"
        f" length {length} instead.",
        "string_above_max_length",
    )


def not_empty(param: str, length: int) -> Refusal:
    """Refuse reasoning with `content`: the API does not accept any there."""
    return _invalid(
        param,
        "array too long. Expected an array with maximum length 0, but got an array with length"
        f" {length} instead.",
        "array_above_max_length",
    )


def _invalid(param: str, rest: str, code: str = "invalid_value") -> Refusal:
    return Refusal(400, f"Invalid '{param}': {rest}", param=param, code=code)


def null_member(param: str) -> Refusal:
    """Refuse null for a member that may only be absent; text not confirmed."""
    return Refusal(
        400,
        f"Invalid type for '{param}': expected a string, but got null instead.",
        param=param,
        code="invalid_type",
    )


def unknown_parameter(param: str) -> Refusal:
    """Refuse a member that the API does not define there."""
    return Refusal(400, f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")


def missing_parameter(param: str) -> Refusal:
    """Refuse a request that lacks a member; text not confirmed."""
    return Refusal(
        400,
        f"Missing required parameter: '{param}'.",
        param=param,
        code="missing_required_parameter",
    )


def unsupported_value(param: str, value: str, supported: tuple[str, ...]) -> Refusal:
    """Refuse a value outside a closed list."""
    quoted = [f"'{one}'" for one in supported]
    listed = ", ".join([*quoted[:-1], f"and {quoted[-1]}"])
    return Refusal(
        400,
        f"Invalid value: '{value}'. Supported values are: {listed}.",
        param=param,
        code="invalid_value",
    )


def unreadable_body(detail: str) -> Refusal:
    """Refuse a body that is not a request; `detail` names the place in the stand-in's words."""
    return Refusal(400, f"We could not parse the JSON body of your request. ({detail})")


def no_credential() -> Refusal:
    """Refuse a request without a credential."""
    return Refusal(
        401,
        "Incorrect API key provided: ''. You can find your API key at"
        " https://platform.openai.com/account/api-keys.",
        code="invalid_api_key",
    )


def unknown_route(method: str, path: str) -> Refusal:
    """Refuse a URL that the stand-in does not serve."""
    return Refusal(404, f"Invalid URL ({method} {path})")


def wrong_method(method: str) -> Refusal:
    """Refuse a known URL with another method."""
    return Refusal(
        405,
        f"Not allowed to {method} on this URL. (HINT: Perhaps you meant to use a different HTTP"
        " method?)",
        code="method_not_supported",
    )


def invalid_stream_id() -> Refusal:
    """Refuse the name of a lane; text not confirmed."""
    return Refusal(
        400,
        "Invalid 'stream_id': expected 1 to 256 letters, digits, underscores, dots or dashes.",
        param="stream_id",
        code="invalid_stream_id",
    )


def stream_limit() -> Refusal:
    """Refuse a lane above the limit of a WebSocket."""
    return Refusal(
        400,
        "This WebSocket connection has reached its stream limit.",
        param="stream_id",
        code="websocket_stream_limit_reached",
    )
