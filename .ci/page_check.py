"""Check of the page of the package index: rendered as there, every link leads somewhere."""

import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

from readme_renderer.markdown import render

ROOT = Path(__file__).parents[1]


def main(wheel: str, url: str) -> int:
    """Print the number of links, or each wrong one."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (one for one in opened.namelist() if one.endswith("/METADATA"))
        metadata = Parser().parsestr(opened.read(name).decode())
    html = render(str(metadata.get_payload()))
    if html is None:
        print(f"{wheel}: its page cannot be rendered")
        return 1
    links = re.findall(r'(?:href|src|srcset)="([^"]+)"', html)
    links += [one.partition(", ")[2] for one in metadata.get_all("Project-URL", [])]
    wrong = [link for link in links if not is_right(link, url, html)]
    for link in wrong:
        print(f"{wheel}: the link {link} leads nowhere")
    print(f"page of the index: {len(links)} links, {len(wrong)} wrong, {len(html)} bytes of HTML")
    return min(1, len(wrong) + (not links) + (not metadata.get_all("Project-URL")))


def is_right(link: str, url: str, html: str) -> bool:
    """Return whether a link is absolute, and has its file if it leads to the repository."""
    if link.startswith("#"):
        return f'id="{link[1:]}"' in html or f'id="user-content-{link[1:]}"' in html
    found = re.fullmatch(rf"{re.escape(url)}/(?:blob|raw)/[^/]+/([^#]+)(?:#.*)?", link)
    return (ROOT / found[1]).is_file() if found else link.startswith("https://")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
