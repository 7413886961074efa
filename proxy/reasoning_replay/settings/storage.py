"""Storage settings: the store, its credentials, its bounds and its deadlines."""

from pydantic import BaseModel, Field, SecretStr

from reasoning_replay.settings.field_types import (
    MIB,
    Count,
    EncryptionKeys,
    File,
    Limit,
    Secret,
    StoreUrl,
)

__all__ = ["StorageSettings"]


class StorageSettings(BaseModel, defer_build=True):
    """The store: its address, its credentials, and its bounds in bytes and time."""

    store_url: StoreUrl = Field(
        default="memory://",
        repr=False,
        description="Address of the store: `memory://` (lost at a restart, not shared), "
        "`sqlite:///path`, `redis://host:6379/0`, `rediss://` (TLS), `unix:///path`, "
        "`redis+sentinel://host,host/service` or `redis+cluster://host,host`. See docs/stores.md.",
    )
    store_password: Secret = Field(
        default=SecretStr(""),
        description="Password for Redis; overrides the password in `store_url`.",
    )
    store_password_file: File = Field(
        default="",
        description="File with the password for Redis, read again for each new connection: the "
        "password may change while the proxy runs. Overrides `store_password`.",
    )
    encryption_keys: EncryptionKeys = Field(
        default=SecretStr(""),
        description="Keys that encrypt stored records (AES-256-GCM): `id:key`, separated by "
        "commas, each key 32 random bytes in base64. The first key encrypts, all decrypt; a "
        "record without its key is lost. Empty: no encryption. To rotate keys, see "
        "docs/stores.md.",
    )
    store_budget_ms: Count = Field(
        default=250,
        description="Longest time that one exchange waits for the store in total. After that, a "
        "lookup counts as empty, and a save continues in the background for up to a second. "
        "Too short for a distant Redis: nothing is injected.",
    )
    ttl_s: Count = Field(
        default=604_800,  # 7 days
        description="Time that a conversation is kept after its last use. Longer costs memory; a "
        "conversation that is resumed later continues without its stored reasoning.",
    )
    conversation_max_bytes: Count = Field(
        default=8 * MIB,
        description="Most bytes kept of one conversation; the oldest turns are dropped first. "
        "The most turns are 1,024.",
    )
    store_max_bytes: Count = Field(
        default=256 * MIB,
        description="Most bytes that `memory://` or `sqlite://` keeps; the least recently used "
        "conversations are evicted. With `memory://`, set the memory limit of a container well "
        "above this. An SQLite file may be slightly larger. Redis has its own `maxmemory`.",
    )
    recent_max_bytes: Limit = Field(
        default=32 * MIB,
        description="Size of the local cache of decoded conversations. A cached conversation is "
        "used if its version is the store's, or while the store fails. `0`: no cache.",
    )
