"""
Refusals of the API, word for word.

Texts, types, params and codes are those of recorded and publicly reported errors; the few that are
not confirmed are marked. Each is called with what its text names.
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


class Form:
    """The form of a refusal; the braces of its texts stand for what the caller names."""

    def __init__(
        self, text: str, *, status: int = 400, param: str | None = None, code: str | None = None
    ) -> None:
        self._text = text
        self._status = status
        self._param = param
        self._code = code

    def __call__(self, *names: object) -> Refusal:
        """Return the refusal, with these names in its text."""
        param = self._param and self._param.format(*names)
        return Refusal(self._status, self._text.format(*names), param=param, code=self._code)


# An item, its type, and the reasoning that led to it.
missing_reasoning = Form(
    "Item '{}' of type '{}' was provided without its required 'reasoning' item: '{}'.",
    param="input",
)
missing_follower = Form(
    "Item '{}' of type 'reasoning' was provided without its required following item.",
    param="input",
)
# Type and param of the native error are not confirmed.
duplicate = Form(
    "Duplicate item found with id {}. Remove duplicate items from your input and try again.",
    param="input",
)
# The noun is "function call" in the confirmed texts.
unanswered_call = Form("No tool output found for {} {}.", param="input")
orphan_output = Form("No tool call found for {} output with call_id {}.", param="input")

# Blobs, and reasoning where there is none...

_of_item = Form(
    "The encrypted content for item {} could not be verified. Reason: {}",
    code="invalid_encrypted_content",
)
_ciphertext = Form(
    "The encrypted content {}...{} could not be verified.{}", code="invalid_encrypted_content"
)
_of_caller = Form("reasoning `encrypted_content` was not issued to this caller")
_of_resource = Form(
    "The requested item was created under a different Azure OpenAI resource. Use the same resource"
    " that created the item to access it."
)
ciphertext_unsupported = Form(
    "Encrypted content is not supported with this model.", param="include"
)
ciphertext_not_kept = Form(
    "Encrypted content cannot be requested for persisted responses.", param="include"
)
blobs_unsupported = Form("Encrypted content is not supported.")  # vLLM
missing_text = Form(  # DeepSeek
    "The `reasoning_text` in the thinking mode must be passed back to the API.",
    code="invalid_request_error",
)
bad_message_id = Form("Invalid 'id': message id must be a string starting with 'msg_'")  # gateways
reasoning_unsupported = Form(
    "Reasoning input items can only be provided to a reasoning or computer use model. Remove"
    " reasoning items from your input and try again.",
    param="input",
)

# Histories that the server keeps; the texts of the last two are not confirmed...

unknown_previous = Form(
    "Previous response with id '{}' not found.",
    param="previous_response_id",
    code="previous_response_not_found",
)
unknown_response = Form("Response with id '{}' not found.", status=404)
two_histories = Form(
    "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only"
    " providing one of them.",
    param="previous_response_id",
    code="mutually_exclusive_parameters",
)

# Members; the first name is that of the member...

wrong_prefix = Form(
    "Invalid '{0}': '{1}'. Expected an ID that begins with '{2}'.",
    param="{0}",
    code="invalid_value",
)
bad_characters = Form(
    "Invalid '{0}': '{1}'. Expected an ID that contains letters, numbers, underscores, or dashes,"
    " but this value contained additional characters.",
    param="{0}",
    code="invalid_value",
)
# The limits are confirmed, the text is not.
too_long = Form(
    "Invalid '{0}': string too long. Expected a string with maximum length {1}, but got a string"
    " with length {2} instead.",
    param="{0}",
    code="string_above_max_length",
)
# Reasoning with `content`: the API does not accept any there.
not_empty = Form(
    "Invalid '{0}': array too long. Expected an array with maximum length 0, but got an array with"
    " length {1} instead.",
    param="{0}",
    code="array_above_max_length",
)
# The texts of these two are not confirmed.
null_member = Form(
    "Invalid type for '{0}': expected a string, but got null instead.",
    param="{0}",
    code="invalid_type",
)
missing_parameter = Form(
    "Missing required parameter: '{0}'.", param="{0}", code="missing_required_parameter"
)
unknown_parameter = Form("Unknown parameter: '{0}'.", param="{0}", code="unknown_parameter")
_unsupported = Form(
    "Invalid value: '{1}'. Supported values are: {2}.", param="{0}", code="invalid_value"
)

# Requests as a whole; the detail of an unreadable body is in the stand-in's own words...

unreadable_body = Form("We could not parse the JSON body of your request. ({})")
no_credential = Form(
    "Incorrect API key provided: ''. You can find your API key at"
    " https://platform.openai.com/account/api-keys.",
    status=401,
    code="invalid_api_key",
)
unknown_route = Form("Invalid URL ({} {})", status=404)
wrong_method = Form(
    "Not allowed to {} on this URL. (HINT: Perhaps you meant to use a different HTTP method?)",
    status=405,
    code="method_not_supported",
)

# Lanes of a WebSocket; the first text is not confirmed...

invalid_stream_id = Form(
    "Invalid 'stream_id': expected 1 to 256 letters, digits, underscores, dots or dashes.",
    param="stream_id",
    code="invalid_stream_id",
)
stream_limit = Form(
    "This WebSocket connection has reached its stream limit.",
    param="stream_id",
    code="websocket_stream_limit_reached",
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
    return _ciphertext(blob[:_ENDS_SHOWN], blob[-_ENDS_SHOWN:], reason)


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
            return _of_caller()
        case "resource":
            return _of_resource()


def moved_ciphertext(item_id: str) -> Refusal:
    """Refuse a blob that was issued for another item id."""
    return _of_item(item_id, "Encrypted content item_id did not match the target item id.")


def unsupported_value(param: str, value: str, supported: tuple[str, ...]) -> Refusal:
    """Refuse a value outside a closed list."""
    quoted = [f"'{one}'" for one in supported]
    return _unsupported(param, value, ", ".join([*quoted[:-1], f"and {quoted[-1]}"]))
