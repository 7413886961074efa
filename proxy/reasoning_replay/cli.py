"""Command line: serve, check, config, health, scope, report, demo, verify and --version."""

import argparse
import asyncio
import gc
import math
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn

from reasoning_replay.build import build_version
from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.settings.entries import SettingsError
from reasoning_replay.settings.loader import (
    Loaded,
    config_in,
    flag_of,
    load_with_sources,
)
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.own_store import make_folder, own_store_url
from reasoning_replay.settings.reference import (
    COMMON,
    GROUPS,
    effective,
    help_of,
    metavar_of,
    short_help_of,
)

USAGE_ERROR = 2
UNHEALTHY = 1  # not 2, which Docker reserves
NAMES = tuple(entry.name for entry in DIALECTS)  # the first is the default

VERIFY = "run a client against a built-in strict API, and report what it brings back"
NO_DASHES = "verify: -- is missing before the command; write: verify -- python agent.py"
VERIFY_EPILOG = """\
The command finds the base URLs and keys in its environment: OPENAI_BASE_URL, ANTHROPIC_BASE_URL,
GOOGLE_GEMINI_BASE_URL and so on. The exit code is 0 if all reasoning came back, 1 if some was lost
or a request was refused, and 2 if nothing was verified. docs/verify.md explains the report.
"""

REPORT = "print what running proxies were worth: reasoning, tokens, cache misses, and money"
ADMIN_URL = "http://127.0.0.1:9090"

SCOPE_MAX_BYTES = 64 << 10
SCOPE_PROMPT = "Write a key, or `header: value` lines of the tenant's requests, then Ctrl-D."
SCOPE_PURPOSE = "print the scopes of the tenant whose key or header lines are on standard input"
EPILOG = """\
A SIZE is 64MiB (powers of 1024), 64MB (powers of 1000) or a number of bytes. A DURATION is 7d, 12h,
10m, 30s, 250ms, or a number in the unit at the end of the name.

Each flag has an environment variable: --ttl-s is REPLAY_TTL_S. A flag overrides its variable, which
overrides the --config file, which overrides the default. Each secret can be read from a file:
REPLAY_<NAME>_FILE names it, for example REPLAY_SCOPE_SECRET_FILE. The same works for store_url and
upstream_proxy, which may contain a password. docs/configuration.md explains every setting;
config/replay.yaml has all defaults.
"""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Args:
        argv: The arguments after the program's name; None means those of the process.

    Returns:
        The exit code: 0 success, 1 the command found a problem, 2 wrong arguments or settings.
    """
    # Each command imports only what it needs, so that `serve` starts quickly.
    words = sys.argv[1:] if argv is None else argv
    words, command = _split(words)
    arguments, rest = _parser(words).parse_known_args(words)
    try:
        overrides = _overrides(arguments, rest, command)
        if arguments.command in {"demo", "report", "verify"}:
            return _own_way(arguments, command)
        config = arguments.config or config_in(os.environ)
        own = _own(arguments.command)
        loaded = load_with_sources(overrides, os.environ, config, own)
        if arguments.command == "check":
            _require_upstream(arguments, loaded.settings)
    except SettingsError as error:
        for fault in error.faults:
            print(fault, file=sys.stderr)
        return UNHEALTHY if arguments.command == "health" else USAGE_ERROR
    settings = loaded.settings
    if arguments.command in {"serve", "check"} and settings.store_url == own.get("store_url"):
        make_folder(settings.store_url)
    if arguments.command in {"config", "scope"}:
        return _scope(settings) if arguments.command == "scope" else _config(loaded)
    if arguments.command == "health":
        from reasoning_replay.healthcheck import health  # noqa: PLC0415 (as above)

        path = "/readyz" if arguments.ready or arguments.strict else "/livez"
        return health(settings.admin_listen, path, is_strict=arguments.strict)
    if arguments.command == "check":
        from reasoning_replay.check import check  # noqa: PLC0415 (as above)

        _settle()
        dialect, named = arguments.dialect or NAMES[0], arguments.upstream
        return asyncio.run(check(settings, os.environ, arguments.prove, dialect, named))
    from reasoning_replay.web import serve  # noqa: PLC0415 (as above)

    _settle()
    return serve.run(
        settings, lambda: load_with_sources(overrides, os.environ, config, own).settings
    )


def _own(command: str) -> dict[str, str]:
    """Return the defaults of a person's proxy, where they differ from those of a container."""
    url = own_store_url(os.environ) if command in {"serve", "check", "config"} else ""
    return {"store_url": url} if url else {}


def _require_upstream(arguments: argparse.Namespace, settings: Settings) -> None:
    """
    Make sure that it is clear which upstream to check.

    Raises:
        SettingsError: `--upstream` names none, or is missing for a conversation.
    """
    names = ", ".join(settings.upstreams)
    if arguments.upstream and arguments.upstream not in settings.upstreams:
        known = f"none of {names}" if names else "for several upstreams, and upstreams is not set"
        raise SettingsError([f"--upstream: {arguments.upstream!r} is {known}"])
    if arguments.prove and len(settings.upstreams) > 1 and not arguments.upstream:
        raise SettingsError([f"--prove: which upstream has that model? Add --upstream: {names}"])


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words of this program, and the command of `verify` after `--`."""
    if "verify" not in words[:1] or "--" not in words:
        return words, ()
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _own_way(arguments: argparse.Namespace, words: Sequence[str]) -> int:
    """Run a command that takes no settings; `_verify` says what it raises."""
    if arguments.command == "report":
        from reasoning_replay.report import report  # noqa: PLC0415 (only this command needs it)

        return report(arguments.urls or [ADMIN_URL], arguments.prices, is_json=arguments.json)
    return _demo(arguments) if arguments.command == "demo" else _verify(arguments, words)


def _demo(arguments: argparse.Namespace) -> int:
    from reasoning_replay.demo import playground, run  # noqa: PLC0415 (only this command needs it)

    _settle()
    return playground.serve() if arguments.serve else run(arguments.dialect)


def _verify(arguments: argparse.Namespace, words: Sequence[str]) -> int:
    """
    Verify a client.

    Raises:
        SettingsError: There is no command, no such scenario, or no such time.
    """
    from reasoning_replay.strict_api import SCENARIOS  # noqa: PLC0415 (only this command needs it)
    from reasoning_replay.verify.command import Options, verify  # noqa: PLC0415 (as above)

    if not words:
        raise SettingsError(["verify: no command; write it after --, such as: -- python agent.py"])
    if not 0 < arguments.timeout < math.inf:
        raise SettingsError([f"--timeout: {arguments.timeout:g} is no number of seconds above 0"])
    if arguments.scenario not in SCENARIOS:
        names = ", ".join(SCENARIOS)
        raise SettingsError([f"--scenario: {arguments.scenario!r} is none of {names}"])
    _settle()
    return verify(
        Options(
            words=words,
            dialect=arguments.dialect,
            scenario=arguments.scenario,
            is_strict=arguments.strict,
            through_proxy=arguments.through_proxy,
            json=arguments.json,
            timeout_s=arguments.timeout,
        )
    )


def _config(loaded: Loaded) -> int:
    print(*effective(loaded), sep="\n")
    return 0


def _scope(settings: Settings) -> int:
    """Print the scopes of the tenant on standard input: an argument shows in the process list."""
    from reasoning_replay.core.tenancy.tenant_lines import scopes_in  # noqa: PLC0415 (as above)
    from reasoning_replay.web.wiring import scopings  # noqa: PLC0415 (as above)

    if sys.stdin.isatty():
        print(SCOPE_PROMPT, file=sys.stderr)
    text = sys.stdin.buffer.read(SCOPE_MAX_BYTES).decode("utf-8", "surrogateescape")
    try:
        found = scopes_in(text, scopings(settings))
    except ValueError as error:
        print(f"scope: {error}", file=sys.stderr)
        return USAGE_ERROR
    for one in found:
        mark = "old-secret" if one.is_former else ""
        print(*filter(None, (one.upstream, one.scope.hex(), one.header, mark)), sep="  ")
    return 0


def _settle() -> None:
    """
    Exclude the imported modules from garbage collection: they are never freed.

    A pass over all of them takes 40 ms, and would pause every stream for that time.
    """
    gc.freeze()
    gc.enable()


def parser() -> argparse.ArgumentParser:
    """Return the parser with every flag of every command; `shtab` makes shell completions of it."""
    return _parser(["serve", "check", "config", "health", "scope", "--help-all"])


def _parser(words: Sequence[str]) -> _Parser:
    """Return the parser; only commands that `words` name get their flags."""
    parser = _Parser(prog="reasoning-replay", description=sys.modules["reasoning_replay"].__doc__)
    _add_version(parser, "show the version and exit")
    text = "a YAML file of settings; also after the command, or REPLAY_CONFIG"
    parser.add_argument("--config", type=Path, metavar="FILE", help=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in [
        ("serve", "run the proxy"),
        ("check", "check whether the settings, the ports, the upstream and the store work"),
        ("config", "print the settings in effect, each with its source, as a YAML file"),
        (
            "health",
            "check whether the proxy with these settings is live; the exit code is 0 or 1",
        ),
        ("scope", SCOPE_PURPOSE),
    ]:
        command = commands.add_parser(
            name,
            help=purpose,
            description=purpose.capitalize() + ".",
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        _add_version(command, argparse.SUPPRESS)
        if name in words:  # adding flags takes time
            most = ("admin_listen",) if name == "health" else COMMON
            _add_settings(command, Settings.model_fields if "--help-all" in words else most)
        if name == "check":
            text = "also run a conversation of two turns with MODEL through the proxy; costs tokens"
            command.add_argument("--prove", default="", metavar="MODEL", help=text)
            text = f"wire format of that conversation: {', '.join(NAMES)}; the first is the default"
            command.add_argument("--dialect", choices=NAMES, help=text)
            text = "check only this one of several upstreams, and have that conversation with it"
            command.add_argument("--upstream", default="", metavar="NAME", help=text)
        if name == "health":
            command.add_argument(
                "--ready", action="store_true", help="check whether it is ready for traffic"
            )
            text = "check whether it is ready and uses its store, as after an installation"
            command.add_argument("--strict", action="store_true", help=text)
    purpose = "run one agent loop without and with the proxy, against a built-in API"
    show = commands.add_parser("demo", help=purpose, allow_abbrev=False)
    _add_version(show, argparse.SUPPRESS)
    text = "playground: keep the API, the proxy, the inspector and some agents running"
    one = show.add_mutually_exclusive_group()
    one.add_argument("--serve", action="store_true", help=text)
    text = f"wire format of the agent and the API: {', '.join(NAMES)}; the first is the default"
    one.add_argument("--dialect", choices=NAMES, default=NAMES[0], help=text)
    tell = commands.add_parser("report", help=REPORT, description=REPORT, allow_abbrev=False)
    _add_version(tell, argparse.SUPPRESS)
    text = f"the admin ports; the default is {ADMIN_URL}"
    tell.add_argument("urls", nargs="*", metavar="ADMIN_URL", help=text)
    tell.add_argument("--json", action="store_true", help="print one JSON object")
    text = "a YAML file with your prices for a million tokens, by model; see docs/worth.md"
    tell.add_argument("--prices", type=Path, metavar="FILE", help=text)
    _add_verify(commands.add_parser("verify", help=VERIFY, description=VERIFY, allow_abbrev=False))
    return parser


def _add_verify(command: argparse.ArgumentParser) -> None:
    """Add the flags of `verify`; what it runs is split off before."""
    command.usage = "%(prog)s [OPTION ...] -- COMMAND [ARGUMENT ...]"
    command.epilog = VERIFY_EPILOG
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_version(command, argparse.SUPPRESS)
    text = f"the only API: {', '.join(NAMES)}; the default is all of them"
    command.add_argument("--dialect", choices=NAMES, default="", help=text)
    text = "what the model does, such as tour (the default), parallel or two-turns"
    command.add_argument("--scenario", default="tour", metavar="NAME", help=text)
    text = "also refuse losses that the vendor accepts in silence, and count a prefix that moved"
    command.add_argument("--strict", action="store_true", help=text)
    text = "run the command a second time, through the proxy; that run decides"
    command.add_argument("--through-proxy", action="store_true", help=text)
    text = "also write the report to a file"
    command.add_argument("--json", type=Path, metavar="FILE", help=text)
    text = "end the command after that time; the default is 600"
    command.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help=text)


def _add_version(parser: argparse.ArgumentParser, text: str) -> None:
    """Add `--version` and `-v`, which users also write after a command."""
    version = f"reasoning-replay {build_version()}"
    parser.add_argument("-v", "--version", action="version", version=version, help=text)


def _add_settings(command: argparse.ArgumentParser, shown: Collection[str]) -> None:
    """Add a flag per setting, which is absent if not given; the help has those in `shown`."""
    command.add_argument("--help-all", action="help", help="show every setting and exit")
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,  # or it hides the one before the command
        help="a YAML file of settings; the variable is REPLAY_CONFIG",
    )
    command.usage = "%(prog)s [OPTION VALUE ...]"
    is_short = len(shown) < len(Settings.model_fields)
    text_of = short_help_of if is_short else help_of
    for group in GROUPS:
        # A group without a shown setting must have no text, or its title is printed.
        about = None if is_short else group.__doc__
        section = command.add_argument_group(group.heading, about)
        for name in group.model_fields:
            # A switch without a value means true.
            is_switch = isinstance(Settings.model_fields[name].default, bool)
            section.add_argument(
                flag_of(name),
                dest=name,
                metavar=metavar_of(name),
                nargs="?" if is_switch else None,
                const="true" if is_switch else None,
                default=argparse.SUPPRESS,
                help=text_of(name).replace("%", "%%") if name in shown else argparse.SUPPRESS,
            )


def _overrides(
    arguments: argparse.Namespace, rest: Sequence[str], command: Sequence[str]
) -> dict[str, str]:
    """
    Return the given settings; unknown flags are included, so that `load` rejects them.

    Raises:
        SettingsError: There are arguments that belong to no flag, or that have no effect. The
            message does not quote them: the argument after a misspelt --scope-secret is a secret.
    """
    if arguments.command == "verify" and rest and not command:
        raise SettingsError([NO_DASHES])
    known = Settings.model_fields
    given = {name: value for name, value in vars(arguments).items() if name in known}
    unknown = [word.partition("=")[0] for word in rest if word.startswith("--")]
    if rest and (not unknown or arguments.command in {"demo", "report", "verify"}):
        hint = "write --name value"
        if any(word.endswith((".yaml", ".yml")) for word in rest):
            hint = "write --config FILE"
        if arguments.command in {"demo", "report", "verify"}:
            hint = "see --help"
        raise SettingsError([f"{arguments.command}: {len(rest)} unexpected argument(s); {hint}"])
    if arguments.command == "check" and arguments.dialect and not arguments.prove:
        raise SettingsError(["check: --dialect is for --prove MODEL only; give both or neither"])
    return given | {flag.removeprefix("--").replace("-", "_"): "" for flag in unknown}
