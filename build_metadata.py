"""
Build metadata: the page of the package index, its links, and the names of what is published.

Everything is derived from the repository, which `repository` finds: this is the only place that
knows a registry or an owner. Hatchling calls `get_metadata_hook`; the release job runs this file.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parent
# Registry of a repository's owner, by the host of the repository.
REGISTRIES = {"github.com": "ghcr.io"}
LINK = re.compile(r'(?P<before>\]\(|\bhref="|\bsrc="|\bsrcset=")(?P<to>[^)"\s]+)')
PICTURES = (".webp", ".png", ".svg")


def repository() -> str:
    """
    Return the URL of the repository, "" if it is unknown.

    The platform of the build names it; a checkout has it as the remote `origin`.
    """
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    if not (ROOT / ".git").exists():  # the repository around it would be another one
        return ""
    words = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    told = subprocess.run(words, capture_output=True, check=False, text=True).stdout.strip()  # noqa: S603
    found = re.fullmatch(r"(?:https://|ssh://git@|git@)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?", told)
    return f"https://{found[1]}/{found[2]}" if found else ""


def registry(url: str) -> str:
    """Return the place of a repository's images, such as `ghcr.io/owner`."""
    parts = urlsplit(url)
    host = REGISTRIES.get(parts.netloc)
    owner = parts.path.strip("/").partition("/")[0]
    if host is None or not owner:
        raise SystemExit(f"build_metadata.py: no registry is known for the repository {url!r}")
    return f"{host}/{owner.lower()}"


def entry(version: str) -> str:
    """Return the text of a version in the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(
        rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if found is None:
        raise SystemExit(f"build_metadata.py: CHANGELOG.md has no section [{version}]")
    return found[1].strip()


def absolute(text: str, url: str, ref: str) -> str:
    """Return a Markdown text of the root folder with links to a repository at a commit or tag."""

    def at(match: re.Match[str]) -> str:
        to = match["to"]
        if re.match(r"[a-z]+:|#", to):
            return match[0]
        kind = "raw" if to.endswith(PICTURES) else "blob"
        return f"{match['before']}{url}/{kind}/{ref}/{to}"

    return LINK.sub(at, text)


def page(url: str) -> str:
    """Return the page of the index: the README, then what the newest release changed."""
    release = _release()
    text = (ROOT / "README.md").read_text() + f"\n## Changes in {release}\n\n{entry(release)}\n"
    # Only the build of a tag has the name of no commit.
    ref = f"v{release}" if os.environ.get("BUILD_COMMIT") == "" else "HEAD"
    return absolute(text, url, ref) if url else text


def urls(url: str) -> dict[str, str]:
    """Return the links of the project, by their label."""
    pages = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md"}
    more = {label: f"{url}/blob/HEAD/{path}" for label, path in pages.items()}
    return {"Homepage": url, **more, "Source": url, "Issues": f"{url}/issues"} if url else {}


def get_metadata_hook() -> type:
    """Return the hook that hatchling runs, except for a source distribution, which has it all."""
    from hatchling.metadata.plugin.interface import (  # noqa: PLC0415 (only a build has it)
        MetadataHookInterface,
    )

    class Page(MetadataHookInterface):  # type: ignore[misc, unused-ignore]
        """Hook that sets the page and the links."""

        def update(self, metadata: dict[str, Any]) -> None:
            """Set what depends on the repository."""
            url = repository()
            metadata["readme"] = {"content-type": "text/markdown", "text": page(url)}
            metadata["urls"] = urls(url)

    return Page


def _release() -> str:
    text = (ROOT / "proxy/reasoning_replay/__init__.py").read_text()
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


# What the release job asks for.
WORDS = {
    "url": repository,
    "image": lambda: f"{registry(repository())}/reasoning-replay",
    "charts": lambda: f"{registry(repository())}/charts",
    "changes": lambda: absolute(entry(_release()), repository(), f"v{_release()}"),
}

if __name__ == "__main__":
    print(WORDS[sys.argv[1]]())  # noqa: T201
