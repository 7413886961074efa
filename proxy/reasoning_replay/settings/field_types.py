"""Field types of the settings: each checks its values, and its error names a way out."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr

from reasoning_replay.adapters.stores.address import why_unreadable
from reasoning_replay.adapters.stores.encryption_keys import parse_keys
from reasoning_replay.adapters.stores.registry import read_store_url
from reasoning_replay.core.dialects.registry import DIALECTS, REPAIRS
from reasoning_replay.core.dialects.vendors import AUTO, GENERIC
from reasoning_replay.core.history.model_names import NAME_CHARS, family
from reasoning_replay.core.tenancy.scope import read_parts, read_secrets
from reasoning_replay.core.wire.forwarded import read_networks
from reasoning_replay.settings import urls

MIB: Final = 1024 * 1024
MODELS_MAX: Final = 20


def _utf8(secret: SecretStr) -> SecretStr:
    try:
        secret.get_secret_value().encode()
    except UnicodeEncodeError:
        raise ValueError("not UTF-8 text; use letters and digits") from None
    return secret


def _readable_by(read: Callable[[str], object]) -> AfterValidator:
    """Return a validator that accepts what a function can read."""

    def check(written: str) -> str:
        read(written)
        return written

    return AfterValidator(check)


def _keys(secret: SecretStr) -> SecretStr:
    parse_keys(secret.get_secret_value())
    return secret


def _scope_secrets(secret: SecretStr) -> SecretStr:
    read_secrets(secret.get_secret_value())
    return secret


def _repairs(written: str) -> str:
    """Accept names of repairs separated by commas, or `none`."""
    names = [name.strip() for name in written.split(",")]
    if names not in (["none"], [""]) and not set(names) <= set(REPAIRS):
        raise ValueError(f"use any of {','.join(REPAIRS)}, or none")
    return ",".join(names)


def _models(written: str) -> str:
    """Accept names of models separated by commas, each model once."""
    names = [name.strip() for name in written.split(",")] if written.strip() else []
    if len(names) > MODELS_MAX:
        raise ValueError(f"{len(names)} models; name at most {MODELS_MAX}: each adds time series")
    if any(not name.isprintable() or not 0 < len(name) <= NAME_CHARS for name in names):
        raise ValueError(f"a name is empty, longer than {NAME_CHARS} characters or not printable")
    if twice := [name for name, count in Counter(map(family, names)).items() if count > 1]:
        raise ValueError(f"these are one model: {twice[0]} and a spelling of it; name it once")
    return ",".join(names)


def _file(path: str) -> str:
    """Accept the path of a readable file, or an empty string."""
    if path and (reason := why_unreadable(path)):
        raise ValueError(f"cannot be read: {reason}; name a readable file, or leave it empty")
    return path


def _tracing(value: str) -> str:
    """Accept an exporter whose packages are installed."""
    if value != "off" and not _has_otel():
        raise ValueError(
            "needs OpenTelemetry, which is not installed; run pip install '.[otel]' in the "
            "project's folder"
        )
    return value


def _has_otel() -> bool:
    import importlib.util  # noqa: PLC0415 (only tracing needs it)

    names = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
    try:
        return all(importlib.util.find_spec(name) for name in names)
    except ImportError:  # not even their parent package
        return False


# The profiles of all dialects. A type checker knows no such set, and takes any text.
if TYPE_CHECKING:
    ProfileName = str
else:
    _NAMES = dict.fromkeys(name for entry in DIALECTS for name in entry.vendors)
    ProfileName = Literal[(AUTO, *(name for name in _NAMES if name != GENERIC), GENERIC)]
UpstreamUrl = Annotated[str, AfterValidator(urls.upstream_url)]
UpstreamProxy = Annotated[str, AfterValidator(urls.upstream_proxy)]
StoreUrl = Annotated[str, _readable_by(read_store_url)]
Listen = Annotated[str, _readable_by(urls.host_and_port)]
ModelNames = Annotated[str, AfterValidator(_models)]
RepairNames = Annotated[str, AfterValidator(_repairs)]
ScopeFrom = Annotated[str, _readable_by(read_parts)]
TrustedProxies = Annotated[str, _readable_by(read_networks)]
File = Annotated[str, AfterValidator(_file)]
Secret = Annotated[SecretStr, AfterValidator(_utf8)]
ScopeSecret = Annotated[SecretStr, AfterValidator(_utf8), AfterValidator(_scope_secrets)]
EncryptionKeys = Annotated[SecretStr, AfterValidator(_keys)]
TracingWay = Annotated[Literal["off", "otlp"], AfterValidator(_tracing)]
Count = Annotated[int, Field(ge=1)]
Limit = Annotated[int, Field(ge=0)]  # 0: no limit
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
