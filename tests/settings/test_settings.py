"""Settings have four sources; a wrong one gives one line with a way out."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError
from reasoning_replay.settings.entries import SettingsError
from reasoning_replay.settings.loader import env_of, flag_of, load
from reasoning_replay.settings.model import Settings

from tests.core.costs import assert_linear

SECRET = "hunter2-hunter2"


def faults(
    tmp_path: Path,
    flags: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    file: str | bytes | None = None,
) -> list[str]:
    """Return the lines that `load` reports, without the folder of the file."""
    path = None
    if file is not None:
        path = tmp_path / "replay.yaml"
        path.write_bytes(file.encode() if isinstance(file, str) else file)
    with pytest.raises(SettingsError) as caught:
        load(flags or {}, env or {}, path)
    return [fault.replace(f"{tmp_path}/", "") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("flags", "env", "file", "want"),
    [
        pytest.param({}, {}, "", 604800, id="default"),
        pytest.param({}, {}, "ttl_s: 1", 1, id="file-over-default"),
        pytest.param({}, {"REPLAY_TTL_S": "2"}, "ttl_s: 1", 2, id="environment-over-file"),
        pytest.param({"ttl_s": "3"}, {"REPLAY_TTL_S": "2"}, "ttl_s: 1", 3, id="flag-over-all"),
        pytest.param({"ttl_s": "3"}, {"REPLAY_TTL_S": "x"}, "ttl_s: y", 3, id="loser-is-not-read"),
    ],
)
def test_the_nearest_place_wins(
    tmp_path: Path, flags: dict[str, str], env: dict[str, str], file: str, want: int
) -> None:
    """A flag overrides the environment, which overrides the file, which overrides the default."""
    path = tmp_path / "replay.yaml"
    path.write_text(file)

    assert load(flags, env, path).ttl_s == want


@pytest.mark.parametrize("mode", ["on", "off", "shadow"])
def test_yaml_words_stay_words(tmp_path: Path, mode: str) -> None:
    """YAML would read `on` and `off` as booleans; the loader keeps the text."""
    path = tmp_path / "replay.yaml"
    path.write_text(f"mode: {mode}")

    assert load({}, {}, path).mode == mode


def test_a_name_with_nothing_after_it_sets_nothing(tmp_path: Path) -> None:
    """`ttl_s:` without a value, or null, leaves the default."""
    path = tmp_path / "replay.yaml"
    path.write_text("ttl_s:\nscope_secret: null\n# mode: off\n")

    assert load({}, {}, path) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        pytest.param("store_url", "foo://x", 'unknown scheme "foo"; use memory://, sqlite:///path, redis://, rediss://, unix:///path, redis+sentinel:// or redis+cluster://', id="scheme"),  # noqa: E501
        pytest.param("listen", "8080", "not host:port; use 127.0.0.1:8080, 0.0.0.0:8080 (every interface) or [::1]:8080", id="listen"),  # noqa: E501
        pytest.param("mode", "maybe", "should be 'on', 'shadow' or 'off'; the default is on", id="word"),  # noqa: E501
        pytest.param("ttl_s", "", "not a duration; use ms, s, m, h or d, such as 10m; a plain number is in seconds", id="empty"),  # noqa: E501
        pytest.param("ttl_s", "0", "should be greater than or equal to 1; the default is 7d", id="zero"),  # noqa: E501
        pytest.param("drain_s", "-1", "should be greater than or equal to 0; the default is 10m", id="negative"),  # noqa: E501
        pytest.param("read_timeout_s", "inf", "should be a finite number; the default is 15m", id="for-ever"),  # noqa: E501
        pytest.param("connect_timeout_s", "0", "should be greater than 0; the default is 10s", id="never"),  # noqa: E501
        pytest.param("body_max_bytes", "-1", "should be greater than or equal to 0; the default is 1GiB", id="below-no-limit"),  # noqa: E501
        pytest.param("reuse_port", "two", "should be a valid boolean, unable to interpret input; the default is false", id="switch"),  # noqa: E501
        pytest.param("tenant_max_exchanges", "1.5", "should be a whole number; the default is 0", id="half-an-exchange"),  # noqa: E501
        pytest.param("upstream_ca_file", "/nowhere/ca.pem", "cannot be read: No such file or directory; name a readable file, or leave it empty", id="file"),  # noqa: E501
        pytest.param("upstream_proxy", "proxy:3128", "not a URL; start it with http:// or https://", id="egress"),  # noqa: E501
        pytest.param("metrics_models", "gpt-5,openai/gpt-5-2025-08-07", "these are one model: gpt-5 and a spelling of it; name it once", id="model-twice"),  # noqa: E501
        pytest.param("metrics_models", "gpt-5,,o3", "a name is empty, longer than 128 characters or not printable", id="no-model"),  # noqa: E501
        pytest.param("metrics_models", ",".join(f"m{n}" for n in range(21)), "21 models; name at most 20: each adds time series", id="models"),  # noqa: E501
        pytest.param("repairs", "hollow,all", "use any of duplicates,hollow,foreign,unpaired,learned,dangling, or none", id="repair"),  # noqa: E501
        pytest.param("store_url", "redis://h/ 1", "has a space or a control character; percent-encode it, a space as %20", id="space"),  # noqa: E501
        pytest.param("scope_from", "claim:oid", "use a comma-separated list of credential, claims:NAME+NAME and header:NAME", id="source"),  # noqa: E501
        pytest.param("scope_from", "header:te", "header: te is not forwarded to the upstream; use one that is", id="source-of-one-hop"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_fault_names_what_where_and_the_way_out(
    tmp_path: Path, name: str, value: str, reason: str
) -> None:
    """An error is one line that starts with the name the user wrote."""
    want = f'"{value}": {reason}'

    assert faults(tmp_path, flags={name: value}) == [f"{flag_of(name)}: {want}"]
    assert faults(tmp_path, env={env_of(name): value}) == [f"{env_of(name)}: {want}"]
    assert faults(tmp_path, file=f"\n{name}: '{value}'") == [f"replay.yaml:2: {name}: {want}"]


@pytest.mark.parametrize(
    ("env", "file", "want"),
    [
        pytest.param({"REPLAY_TTL": "1"}, None, "REPLAY_TTL: unknown setting; did you mean REPLAY_TTL_S?", id="variable"),  # noqa: E501
        pytest.param({"REPLAY_RECENT_MAX_BYTES": "1"}, None, "REPLAY_RECENT_MAX_BYTES: unknown setting; write REPLAY_LOCAL_MAX_BYTES", id="renamed"),  # noqa: E501
        pytest.param({"REPLAY_WORKERS": "4"}, None, "REPLAY_WORKERS: unknown setting; write REPLAY_REUSE_PORT true and start one process for each core (docs/deploy.md)", id="workers"),  # noqa: E501
        pytest.param({"REASONING_REPLAY_MODE": "off"}, None, "REASONING_REPLAY_MODE: unknown setting; it is REPLAY_MODE", id="other-prefix"),  # noqa: E501
        pytest.param({"REPLAY_XYZZY": "1"}, None, "REPLAY_XYZZY: unknown setting; `serve --help-all` lists all", id="nothing-near"),  # noqa: E501
        pytest.param({"REPLAY_PORT": "8080"}, None, "REPLAY_PORT: unknown setting; write REPLAY_LISTEN 127.0.0.1:8080", id="port-by-hand"),  # noqa: E501
        pytest.param({}, "drain: 1", "replay.yaml:1: drain: unknown setting; did you mean drain_s?", id="key"),  # noqa: E501
        pytest.param({}, "mode: on\nmode: off", "replay.yaml:2: mode: set twice; keep one", id="key-twice"),  # noqa: E501
        pytest.param({}, "redis:\n  url: x", "replay.yaml:1: nested value; write one `name: value` per line", id="nested-map"),  # noqa: E501
        pytest.param({}, "repairs: [none]", "replay.yaml:1: nested value; write one `name: value` per line", id="nested-list"),  # noqa: E501
        pytest.param({}, "[mode]: on", "replay.yaml:1: nested value; write one `name: value` per line", id="nested-key"),  # noqa: E501
        pytest.param({}, "- mode: on", "replay.yaml: not a mapping; write one `name: value` per line", id="list"),  # noqa: E501
        pytest.param({}, "mode: 'on", "replay.yaml:1: not YAML; write one `name: value` per line", id="open-quote"),  # noqa: E501
        pytest.param({}, "mode: on\n---\nmode: off", "replay.yaml:2: not YAML; write one `name: value` per line", id="two-documents"),  # noqa: E501
        pytest.param({}, "upstream_url: http://x/v1\nupstreams:\n  a: {url: http://y/v1}", "replay.yaml:1: upstream_url: replay.yaml:2 sets upstreams as well; keep one", id="one-and-several"),  # noqa: E501
        pytest.param({"REPLAY_UPSTREAM_URL": "http://x/v1", "REPLAY_UPSTREAMS": '{"a": {"url": "http://y/v1"}}'}, None, "REPLAY_UPSTREAM_URL: REPLAY_UPSTREAMS sets upstreams as well; keep one", id="one-and-several-variables"),  # noqa: E501
        pytest.param({"REPLAY_UPSTREAMS": "a"}, None, "REPLAY_UPSTREAMS: not a mapping; write {openai: {url: https://api.openai.com/v1}}", id="no-upstreams"),  # noqa: E501
        pytest.param({"REPLAY_UPSTREAMS": "{a: {url: http://y/v1}"}, None, "REPLAY_UPSTREAMS:1: not YAML; write {openai: {url: https://api.openai.com/v1}}", id="open-map"),  # noqa: E501
        pytest.param({"REPLAY_UPSTREAMS": "{a: {url: http://y/v1, ttl_s: 1}}"}, None, "REPLAY_UPSTREAMS: a.ttl_s: unknown setting; it holds for all upstreams: write it outside of upstreams", id="of-all-upstreams"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a:\n    url: http://y/v1\n    upstream_proxy: env", "replay.yaml:4: upstreams.a.upstream_proxy: unknown setting; here it is proxy", id="longer-name"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a:\n    url: http://y/v1\n    profil: azure", "replay.yaml:4: upstreams.a.profil: unknown setting; did you mean profile?", id="key-of-upstream"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a:\n    url: http://y/v1\n    connect_timeout_s: soon", 'replay.yaml:4: upstreams.a.connect_timeout_s: "soon": not a duration; use ms, s, m, h or d, such as 10m; a plain number is in seconds', id="value-of-upstream"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a: {url: http://y/v1}\n  a: {url: http://z/v1}", "replay.yaml:3: upstreams.a: set twice; keep one", id="upstream-twice"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a: {url: http://y/v1, heal: [on]}", "replay.yaml:2: upstreams.a.heal: nested value; write heal: value", id="nested-in-upstream"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a:", "replay.yaml:2: upstreams.a: has no url; write a: {url: https://api.openai.com/v1}", id="no-url"),  # noqa: E501
        pytest.param({}, "upstreams:\n  v1: {url: http://y/v1}", "replay.yaml:2: upstreams.v1: reads as a version in a path; use the name of the API, such as openai", id="version"),  # noqa: E501
        pytest.param({}, "upstreams:\n  A: {url: http://y/v1}", "replay.yaml:2: upstreams.A: not a name of an upstream; use 1 to 32 characters of a-z, 0-9, - and _, such as openai", id="upper-case"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a: {url: http://127.0.0.1:8080/v1}", "upstreams.a: url: this is the proxy's own address (listen), so it would call itself without end; use the API's, such as https://api.openai.com/v1", id="itself"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a: {url: http://y/v1, hosts: 'h:1'}", "replay.yaml:2: upstreams.a.hosts: not host names, separated by commas and without ports; use anthropic.example.com", id="host-with-port"),  # noqa: E501
        pytest.param({}, "upstreams:\n  a: {url: http://y/v1, hosts: h}\n  b: {url: http://z/v1, hosts: 'g, H'}", "replay.yaml:3: upstreams.b.hosts: h is also a host of a; keep one", id="host-twice"),  # noqa: E501
        pytest.param({}, "ttl_s: {a: b}", "replay.yaml:1: nested value; write one `name: value` per line", id="nested-elsewhere"),  # noqa: E501
        pytest.param({"REPLAY_UPSTREAMS": str({f"a{n}": {"url": "http://y/v1"} for n in range(21)})}, None, "REPLAY_UPSTREAMS: 21 upstreams; name at most 20: each adds time series", id="upstreams"),  # noqa: E501
        pytest.param({}, b"mode: \xff", "replay.yaml: not YAML; write one `name: value` per line", id="not-text"),  # noqa: E501
    ],
)  # fmt: skip
def test_an_unknown_or_unreadable_setting_stops_the_start(
    tmp_path: Path, env: dict[str, str], file: str | bytes | None, want: str
) -> None:
    """A misspelt setting is an error, never silently the default."""
    assert faults(tmp_path, env=env, file=file) == [want]


def test_an_unknown_flag_is_a_fault(tmp_path: Path) -> None:
    """For an unknown flag, the suggestion is spelt as a flag."""
    want = ["--time-to-live: unknown setting; `serve --help-all` lists all"]
    assert faults(tmp_path, flags={"time_to_live": ""}) == want
    want = ["--store: unknown setting; did you mean --store-url?"]
    assert faults(tmp_path, flags={"store": ""}) == want


def test_a_missing_file_is_a_fault(tmp_path: Path) -> None:
    """A missing --config file is an error; the proxy does not fall back to defaults."""
    with pytest.raises(SettingsError) as caught:
        load({}, {}, tmp_path / "none.yaml")

    want = f"--config: {tmp_path}/none.yaml: cannot be read: No such file or directory"
    assert caught.value.faults == [want]


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    """All errors of all sources are reported together."""
    got = faults(
        tmp_path,
        flags={"mode": "maybe"},
        env={"REPLAY_TTL_S": "x", "REPLAY_NO": "x"},
        file="a: b: c",
    )

    assert [fault.partition(": ")[0] for fault in got] == [
        "replay.yaml:1",
        "REPLAY_NO",
        "--mode",
        "REPLAY_TTL_S",
    ]


# Settings that contradict each other -> the start of the fault, and further words; {pem} is a file.
OWN = "upstream_url: this is the proxy's own address"
CONTRADICTIONS = [
    ({"admin_listen": "127.0.0.1:8080"}, ["admin_listen: this is also the address of listen; use another port"]),  # noqa: E501
    ({"upstream_url": "http://127.0.0.1:8080/v1"}, [f"{OWN} (listen)", "https://api.openai.com/v1"]),
    ({"upstream_url": "http://LOCALHOST:8080/v1"}, [f"{OWN} (listen)"]),
    ({"upstream_url": "http://127.0.0.1:8080/v1", "listen": "0.0.0.0:8080"}, [f"{OWN} (listen)"]),
    ({"upstream_url": "http://[::1]:8080/v1", "listen": "[::]:8080"}, [f"{OWN} (listen)"]),
    ({"upstream_url": "http://localhost/v1", "listen": "0.0.0.0:80"}, [f"{OWN} (listen)"]),
    ({"upstream_url": "http://127.0.0.1:9090/v1"}, [f"{OWN} (admin_listen)"]),
    ({"prompt_cache_key": "conversation", "heal": "off"}, ["prompt_cache_key: an upstream may refuse it", "heal: on"]),  # noqa: E501
    ({"cache_diagnosis": "on", "heal": "off"}, ["cache_diagnosis: an upstream may refuse it", "heal: on"]),  # noqa: E501
    ({"reuse_port": "true"}, ["reuse_port: processes that share a port cannot share memory://", "sqlite:///path", "redis://"]),  # noqa: E501
    ({"tls_cert_file": "{pem}"}, ["tls_cert_file, tls_key_file: only one is set; set both or none"]),  # noqa: E501
    ({"tls_key_file": "{pem}"}, ["tls_cert_file, tls_key_file: only one is set; set both or none"]),
]  # fmt: skip
TOGETHER = [
    {"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0"},
    {"upstream_url": "http://127.0.0.1:8000/v1"},
    {"upstream_url": "http://[::1]:8080/v1"},
    {"upstream_url": "http://api.example:8080/v1", "listen": "0.0.0.0:8080"},
    {"upstream_url": "http://127.0.0.1:11434/v1", "listen": "127.0.0.1:0"},
    # Then the address is that of another host.
    {"upstream_url": "http://127.0.0.1:8080/v1", "upstream_proxy": "http://proxy:3128"},
    {"reuse_port": "on", "store_url": "redis://h"},
    {"body_max_bytes": "0", "tenant_max_exchanges": "0", "local_max_bytes": "0"},
    {"tls_cert_file": "{pem}", "tls_key_file": "{pem}"},
]


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A file that can be read."""
    path = tmp_path / "file.pem"
    path.touch()
    return path


@pytest.mark.parametrize(("given", "words"), CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_refused(
    given: dict[str, str], words: list[str], pem: Path, tmp_path: Path
) -> None:
    """Each has one line with the way out."""
    (fault,) = faults(tmp_path, {name: value.format(pem=pem) for name, value in given.items()})
    assert fault.startswith(words[0])
    assert all(word in fault for word in words)


@pytest.mark.parametrize("given", TOGETHER)
def test_settings_that_go_together_are_accepted(given: dict[str, str], pem: Path) -> None:
    """Such as an upstream on this machine."""
    load({name: value.format(pem=pem) for name, value in given.items()}, {}, None)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("none", "No such file or directory", id="missing"),
        pytest.param(".", "Is a directory", id="folder"),
        pytest.param("file/x", "Not a directory", id="below-a-file"),
        pytest.param("\0", "not a path", id="no-path"),
    ],
)
def test_a_file_is_one_that_can_be_read(
    path: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreadable file is an error at the start; an empty path means no file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (fault,) = faults(tmp_path, flags={"upstream_ca_file": path})
    assert fault.endswith(f"cannot be read: {reason}; name a readable file, or leave it empty")

    assert load({"upstream_ca_file": "file"}, {}, None).upstream_ca_file == "file"
    assert load({"upstream_ca_file": ""}, {}, None) == Settings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("REPLAY_TEST_REQUIRE", "redis", id="our-tests"),
        pytest.param("REPLAY_SERVICE_HOST", "10.0.0.1", id="service-host"),
        pytest.param("REPLAY_SERVICE_PORT", "8080", id="service-port"),
        pytest.param("REPLAY_SERVICE_PORT_HTTP", "8080", id="service-port-by-name"),
        pytest.param("REPLAY_PORT", "tcp://10.0.0.1:8080", id="port"),
        pytest.param("REPLAY_PORT_8080_TCP", "tcp://10.0.0.1:8080", id="port-by-number"),
        pytest.param("REPLAY_PORT_8080_TCP_ADDR", "10.0.0.1", id="address"),
        pytest.param("REPLAY_REDIS_SERVICE_HOST", "10.0.0.1", id="longer-service-name"),
        pytest.param("REPLAY_REDIS_PORT", "tcp://10.0.0.1:6379", id="longer-service-port"),
        pytest.param("OPENAI_API_KEY", SECRET, id="foreign"),
    ],
)
def test_variables_of_others_are_ignored(key: str, value: str) -> None:
    """Variables that Kubernetes sets for a Service named "replay" are ignored."""
    assert load({}, {key: value}, None) == Settings()


@pytest.mark.parametrize(
    ("env", "file"),
    [
        pytest.param({"REPLAY_SCOPE_SECRT": SECRET}, None, id="misspelt-variable"),
        pytest.param({"REPLAY_SCOPE_SECRET": f"{SECRET}\udcff"}, None, id="secret-is-not-text"),
        pytest.param({"REPLAY_STORE_URL": f"redis://:{SECRET}@h/x"}, None, id="store-password"),
        pytest.param({"REPLAY_STORE_URL": f"redis//:{SECRET}@h"}, None, id="store-url-malformed"),
        pytest.param({"REPLAY_STORE_URL": f"foo://h?password={SECRET}"}, None, id="store-query"),
        pytest.param({"REPLAY_STORE_URL": f"foo:{SECRET}@h://x"}, None, id="store-scheme"),
        pytest.param({"REPLAY_UPSTREAM_URL": f"https://:{SECRET}@h"}, None, id="upstream-password"),
        pytest.param({"REPLAY_UPSTREAM_URL": f"https://h?key={SECRET}"}, None, id="upstream-query"),
        pytest.param({}, f"scope_secrt: {SECRET}", id="misspelt-key"),
        pytest.param({}, f"scope_secret: '{SECRET}", id="open-quote"),
        pytest.param({}, f"scope_secret: *{SECRET}", id="alias"),
        pytest.param({}, f"scope_secret: [{SECRET}]", id="list"),
        pytest.param({}, f"scope_secret: a\nscope_secret: {SECRET}", id="twice"),
    ],
)
def test_a_fault_never_shows_a_secret(
    tmp_path: Path, env: dict[str, str], file: str | None
) -> None:
    """An error never shows a secret, since platforms store these lines in logs."""
    assert SECRET not in "\n".join(faults(tmp_path, env=env, file=file))


def test_a_fault_is_one_short_line(tmp_path: Path) -> None:
    """An error is one short line, even if the value has line breaks or megabytes."""
    (fault,) = faults(tmp_path, flags={"mode": "a\nb" + "c" * 1000})

    assert "\n" not in fault
    assert len(fault) < 160


def test_settings_by_hand_read_their_arguments_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `load` reads the environment."""
    monkeypatch.setenv("REPLAY_MODE", "off")
    monkeypatch.setenv("MODE", "off")

    assert Settings().mode == "on"


def test_settings_are_frozen() -> None:
    """Settings cannot change while the process runs."""
    with pytest.raises(ValidationError, match="frozen"):
        Settings().mode = "off"  # type: ignore[misc]


def test_tracing_wants_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing OpenTelemetry package is an error at the start, with the way out."""
    assert load({}, {"REPLAY_TRACING": "otlp"}, None).tracing == "otlp"
    for missing in ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"):
        monkeypatch.setitem(sys.modules, missing, None)
        (fault,) = faults(tmp_path, env={"REPLAY_TRACING": "otlp"})
        assert fault == (
            'REPLAY_TRACING: "otlp": needs OpenTelemetry, which is not installed; '
            "run pip install '.[otel]' in the project's folder"
        )
    assert load({}, {}, None).tracing == "off"


def test_a_nested_file_is_refused_in_linear_time(tmp_path: Path) -> None:
    """Its depth is counted, and nothing follows it to its end."""

    def made(size: int) -> Path:
        file = tmp_path / f"{size}.yaml"
        file.write_text("[" * size)
        return file

    def refuse(file: Path) -> None:
        with pytest.raises(SettingsError, match="nested more than 20 times"):
            load({}, {}, file)

    assert_linear(made, refuse, 50_000)
