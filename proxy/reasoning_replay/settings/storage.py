"""Storage settings: the store, its credentials, its bounds and its deadlines."""

from pydantic import BaseModel, Field, SecretStr

from reasoning_replay.settings.field_types import (
    MIB,
    Count,
    EncryptionKeys,
    File,
    Limit,
    Prefix,
    Secret,
    StoreUrl,
)

__all__ = ["StorageSettings"]


class StorageSettings(BaseModel, defer_build=True):
    """The store: its address, its credentials, and its bounds in bytes and time."""

    store_url: StoreUrl = Field(
        default="memory://",
        repr=False,
        description="Where reasoning is kept: memory://, sqlite:///path, redis://host:port/db, "
        "rediss://... (TLS), unix:///path, redis+sentinel://host,host/service or "
        "redis+cluster://host,host. memory:// is lost at a restart and not shared.",
    )
    store_prefix: Prefix = Field(
        default="rr",
        description="What every key in Redis begins with; an ACL may allow that alone.",
    )
    store_username: str = Field(default="", description="User of the Redis, where it has ACLs.")
    store_password: Secret = Field(
        default=SecretStr(""), description="Password of the Redis; wins over one in store_url."
    )
    store_password_file: File = Field(
        default="",
        description="A file with the password of the Redis, read again for each new connection, "
        "so that it may change while the proxy runs. Wins over store_password.",
    )
    encryption_keys: EncryptionKeys = Field(
        default=SecretStr(""),
        description="What is kept is encrypted with these (AES-256-GCM): id:key, by comma, a key "
        "being 32 random bytes in base64. The first encrypts, all decrypt: put a new one first, "
        "and take the old one away when ttl_s has passed. Empty: kept as it is.",
    )
    store_budget_ms: Count = Field(
        default=50,
        description="Milliseconds that one exchange waits for the store, all in all. A save that "
        "takes longer goes on by itself; a request is sent on without replay. Too short for a "
        "distant Redis means that nothing is injected.",
    )
    store_timeout_ms: Count = Field(
        default=1000,
        description="Milliseconds for one operation of the store, connecting included, before it "
        "has failed. Nobody waits for it longer than store_budget_ms.",
    )
    ttl_s: Count = Field(
        default=604_800,  # 7 days
        description="Seconds a conversation is kept after its last use. Longer costs memory; a "
        "conversation resumed later goes on without its reasoning.",
    )
    conversation_max_turns: Count = Field(
        default=1024, description="Turns kept of one conversation; beyond, the oldest goes."
    )
    conversation_max_bytes: Count = Field(
        default=8 * MIB, description="Bytes kept of one conversation; beyond, the oldest turn goes."
    )
    memory_max_bytes: Count = Field(
        default=256 * MIB,
        description="Bytes that memory:// keeps in all; beyond, the conversation unused for "
        "longest is forgotten. The process itself needs room besides.",
    )
    sqlite_max_bytes: Count = Field(
        default=1024 * MIB,
        description="Bytes that sqlite:// keeps in all; beyond, the conversations unused for "
        "longest are forgotten. The file may be a little larger.",
    )
    recent_max_bytes: Limit = Field(
        default=32 * MIB,
        description="Bytes of local copies of conversations, decoded, besides the store. A copy is "
        "used at the version that the store has, or while the store fails. 0: none.",
    )
