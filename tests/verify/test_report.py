"""The report names what a client does to its reasoning, and the verdict follows from it."""

from collections.abc import Callable, Sequence

import pytest
from reasoning_replay.strict_api import DIALECTS, Exchange
from reasoning_replay.verify.report import Run

from tests.strict_api.test_judging import Client, drop, sort_tools, swap, tell_time, trim

# (what a client does, words of the report, the exit code, the same of a strict API)
MUTATIONS: list[tuple[Callable[[Client], None], str, int, int]] = [
    (drop, "is missing at ", 1, 1),
    (swap, "is misplaced at ", 1, 1),
    (trim, "is damaged at ", 1, 1),
    (tell_time, "the prefix moved at ", 0, 1),
    (sort_tools, "the prefix moved at tools or instructions", 0, 1),
]


def said_by(run: Run) -> str:
    """Return the report as one text."""
    return "\n".join(run.lines())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("mutation", "words", "code", "strict_code"), MUTATIONS)
def test_each_mutation_is_named(
    dialect: str,
    mutation: Callable[[Client], None],
    words: str,
    code: int,
    strict_code: int,
) -> None:
    """It is named with the number of its request; a prefix that moved counts in strict runs."""
    client = Client(dialect)
    for _ in range(3):
        client.send()
    mutation(client)
    client.send()
    for is_strict, expected in ((False, code), (True, strict_code)):
        run = Run(client.exchanges, 0, is_strict=is_strict)
        assert run.code == expected
        (line, *_) = [line for line in said_by(run).splitlines() if words in line]
        assert line.startswith("  request 4: ")


def test_what_is_whole_is_counted() -> None:
    """The table has a row for each request; the JSON says the same."""
    client = Client("responses")
    client.converse()
    run = Run(client.exchanges, 0)
    said = said_by(run)
    assert "  4        responses  1         3 whole                         100%    kept" in said
    assert said.endswith(
        "Whole: reasoning came back each of 6 times; 100% of the known prefixes was cached."
    )
    report = run.as_json()
    assert (report["verdict"], report["due"], report["whole"]) == ("whole", 6, 6)
    assert report["cached_share"] == 1
    assert [one["emitted"] for one in report["requests"]] == [1] * 4
    assert report["requests"][1]["findings"] == [{"state": "whole", "path": "input[1]", "turn": 1}]


def refused() -> Sequence[Exchange]:
    """Return two requests; the second one is refused."""
    client = Client("responses")
    client.send()
    del client.history[1]
    client.send()
    return client.exchanges


def single() -> Sequence[Exchange]:
    """Return one request."""
    client = Client("chat")
    client.send()
    return client.exchanges


@pytest.mark.parametrize(
    ("exchanges", "exit_code", "verdict", "words", "code"),
    [
        (refused, 0, "lost", "1 request(s) refused", 1),
        (refused, None, "lost", "The command was ended.", 1),
        (list, 0, "silent", "exited with 0 and never called the API", 2),
        (refused, 0, "lost", "due once, and was not whole once", 1),
        (refused, 0, "lost", "The command exited with 0. Add --through-proxy to see", 1),
        (single, 0, "untested", "no request had reasoning to bring back", 2),
        (single, 3, "failed", "nothing was lost, but the command exited with 3", 2),
        (single, None, "failed", "nothing was lost, but the command was ended", 2),
    ],
)
def test_the_verdict_follows_from_the_requests(
    exchanges: Callable[[], Sequence[Exchange]],
    exit_code: int | None,
    verdict: str,
    words: str,
    code: int,
) -> None:
    """A loss counts first; what was not tested is not called whole."""
    run = Run(exchanges(), exit_code)
    assert (run.verdict, run.code) == (verdict, code)
    assert words in said_by(run)


def test_a_refusal_has_the_words_of_the_vendor_and_their_source() -> None:
    """So that the reader can look it up."""
    run = Run(refused(), 1)
    assert "without its required 'reasoning' item" in said_by(run)
    assert "(seen in github.com/" in said_by(run)
    (told,) = [one["refused"] for one in run.as_json()["requests"] if one["refused"]]
    assert told["status"] == 400
    assert told["source"].startswith("github.com/")


def test_the_losses_shown_are_bounded() -> None:
    """A long run names the first ones, and says how many more there are."""
    run = Run([*refused()] * 30, 0)
    said = said_by(run)
    assert said.count("is missing at") < 20
    assert "lines more; --json FILE has all" in said
    assert len(run.as_json()["requests"]) == 60


def test_advice_is_only_for_what_can_still_be_done() -> None:
    """A run through the proxy is not advised once more; a test has no command."""
    assert "--through-proxy" not in said_by(Run(refused(), 1, through_proxy=True))
    of_a_test = said_by(Run(refused(), is_command=False))
    assert "command" not in of_a_test
    assert "--through-proxy" not in of_a_test


def test_a_client_that_asks_only_for_other_paths_is_told_so() -> None:
    """It did call: its base URL or its API is another one."""
    said = said_by(Run([], 0, unserved={"GET /v2/answers": 1, "POST /x": 3}))
    assert "  not served: GET /v2/answers (once)" in said
    assert "exited with 0 and called only paths that this API does not serve" in said
