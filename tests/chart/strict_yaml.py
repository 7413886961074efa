"""Strict YAML, as Kubernetes reads it: a duplicate key in a mapping is an error."""

from typing import Any

import yaml


class _Strict(yaml.SafeLoader):
    pass


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    names = [loader.construct_object(key) for key, _ in node.value]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"{twice} stand twice{node.start_mark}"
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_all(text: str) -> list[Any]:
    """Return every document that is not empty."""
    return [each for each in yaml.load_all(text, _Strict) if each]
