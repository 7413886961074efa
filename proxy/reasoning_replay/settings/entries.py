"""Entries: settings as the user wrote them, each with its place, and those in YAML."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from reasoning_replay.settings import upstreams
from reasoning_replay.settings.model import Settings

if TYPE_CHECKING:
    import yaml

# Deeper nesting is refused before anything reads a text with a function that calls itself.
NESTED_MAX: Final = 20
_LINE: Final = "write one `name: value` per line"
_MAP: Final = "write {openai: {url: https://api.openai.com/v1}}"
_NULL: Final = "tag:yaml.org,2002:null"


class SettingsError(Exception):
    """The settings cannot be used; `faults` has one line for each error."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(*faults)
        self.faults = faults


class SettingEntry(NamedTuple):
    """One setting as the user wrote it, and its place."""

    name: str  # a field of Settings, unless it is misspelt
    value: str
    place: str  # the start of an error line: a flag, a variable, or a file with line and key
    spell: Callable[[str], str]  # a setting's name -> its spelling in this place
    is_hidden: bool = False  # the value came from a secret's file
    node: "yaml.MappingNode | None" = None  # instead of a value, in a file


def from_file(path: Path) -> Iterator[SettingEntry]:
    """
    Yield `name: value` lines as text: YAML's types would turn `on` and `off` into booleans.

    Raises:
        SettingsError: The file cannot be read, or is not YAML, or nested outside of `upstreams`.
    """
    import yaml  # noqa: PLC0415 (as above)

    try:
        root = _composed(path.read_bytes(), f"{path}", _LINE)
    except OSError as error:
        raise SettingsError([f"--config: {path}: cannot be read: {error.strerror}"]) from None
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise SettingsError([f"{path}: not a mapping; {_LINE}"])
    seen: set[str] = set()
    for key, value in root.value if root else ():
        where = f"{path}:{key.start_mark.line + 1}"
        node = value if isinstance(value, yaml.MappingNode) else None
        has_map = node is not None and key.value == upstreams.FIELD
        if not isinstance(key, yaml.ScalarNode) or not (
            has_map or isinstance(value, yaml.ScalarNode)
        ):
            raise SettingsError([f"{where}: nested value; {_LINE}"])
        if key.value in seen:
            raise SettingsError([f"{where}: {key.value}: set twice; keep one"])
        seen.add(key.value)
        if value.tag != _NULL:  # `name:` with nothing after it sets nothing
            text = "" if has_map else value.value
            yield SettingEntry(key.value, text, f"{where}: {key.value}", str, node=node)


def of_upstreams(entry: SettingEntry, faults: list[str]) -> dict[str, dict[str, SettingEntry]]:
    """
    Return the settings in `upstreams`: name of the upstream -> name there -> setting.

    What is wrong with the names is added to `faults`; then there are none.
    """
    places: dict[tuple[str, ...], str] = {(): entry.place}
    found: dict[str, dict[str, SettingEntry]] = {}
    wrong = len(faults)
    for name, own in _pairs(_map_of(entry, faults), entry.place, faults):
        places[name.value,] = where = _place_in(entry, name, name.value)
        if name.value in found:
            faults.append(f"{where}: set twice; keep one")
            continue
        entries = found[name.value] = {}
        for key, value in _pairs(own, where, faults):
            places[name.value, key.value] = place = _place_in(entry, key, name.value, key.value)
            if key.value in entries:
                faults.append(f"{place}: set twice; keep one")
            elif (text := _text_of(value)) is None:
                faults.append(f"{place}: nested value; write {key.value}: value")
            elif value.tag != _NULL:
                full = upstreams.OWN.get(key.value, key.value)
                entries[key.value] = SettingEntry(full, text, place, str, entry.is_hidden)
    if len(faults) == wrong:
        values = {name: {key: one.value for key, one in own.items()} for name, own in found.items()}
        for names, reason in upstreams.faults(values, Settings.model_fields):
            faults.append(f"{places[names]}: {reason}")
    return found if len(faults) == wrong else {}


def _map_of(entry: SettingEntry, faults: list[str]) -> "yaml.Node | None":
    if entry.node is not None:
        return entry.node
    try:
        return _composed(entry.value, entry.place, _MAP)
    except SettingsError as error:
        faults += error.faults
        return None


def _place_in(entry: SettingEntry, node: "yaml.Node", *names: str) -> str:
    """Return the place of a name in `upstreams`: with its own line in a file."""
    dotted = ".".join(names)
    if entry.node is None:
        return f"{entry.place}: {dotted}"
    file = entry.place.removesuffix(f": {upstreams.FIELD}").rpartition(":")[0]
    return f"{file}:{node.start_mark.line + 1}: {upstreams.FIELD}.{dotted}"


def _pairs(
    node: "yaml.Node | None", place: str, faults: list[str]
) -> "Iterator[tuple[yaml.ScalarNode, yaml.Node]]":
    """Yield the pairs of a mapping whose keys are text; nothing is an empty mapping."""
    import yaml  # noqa: PLC0415 (as above)

    if node is None or node.tag == _NULL:
        return
    pairs = node.value if isinstance(node, yaml.MappingNode) else [(node, node)]
    for key, value in pairs:
        if isinstance(node, yaml.MappingNode) and isinstance(key, yaml.ScalarNode):
            yield key, value
        else:
            faults.append(f"{place}: not a mapping; {_MAP}")


def _text_of(node: "yaml.Node") -> str | None:
    """Return the text of a value; None if it is nested."""
    import yaml  # noqa: PLC0415 (as above)

    return node.value if isinstance(node, yaml.ScalarNode) else None


def _composed(content: bytes | str, where: str, remedy: str) -> "yaml.Node | None":
    """
    Return the root of a YAML or JSON text; None if it is empty.

    Raises:
        SettingsError: It is not YAML, or nested too deeply. YAML's own message is left out because
            it quotes the text.
    """
    import yaml  # noqa: PLC0415 (only a start with a settings file needs it)

    depth = 0
    try:
        for event in yaml.parse(content, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > NESTED_MAX:
                place = f"{where}:{event.start_mark.line + 1}" if event.start_mark else where
                told = f"nested more than {NESTED_MAX} times; {remedy}"
                raise SettingsError([f"{place}: {told}"])
        return yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark else where
        raise SettingsError([f"{place}: not YAML; {remedy}"]) from None
