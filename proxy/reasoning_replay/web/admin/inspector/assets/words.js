"use strict";

// Words and numbers: the texts of the page, and how values are written.

// Of each kind of item: its letter, its word in a block of a short history, and its whole name.
const KINDS = {
  f: ["S", "system"], u: ["U", "user"], m: ["M", "message", "message of the model"], c: ["C", "call"],
  o: ["O", "output"], r: ["R", "reasoning", "reasoning of the client"], i: ["@", "reference"],
};
const WHY = {
  unchecked: "a value of the client asks the API not to check, so the model reads no signature",
  missed: "not found in the store; it was never captured here, or it has expired",
  ambiguous: "more than one turn could have emitted it, so nothing was injected",
  guarded_model: "another model produced it",
  guarded_unfinished: "the item after it never finished, or upstream has refused it before",
  guarded_prefix: "its model binds it to the history before it, and the client has changed that, or it was sent without it",
  guarded_form: "this request may not carry it in any form, or the message is not one response as it was",
  skipped: "the request switches reasoning off, or the message is of an older round",
  refused: "upstream refused the request with it, and accepted the request without it",
  phase: "the message got back the phase that upstream emitted it with",
  degraded: "its id was left out, or a filler added, so that upstream accepts it without reasoning",
};
const ASKED = {
  stateful: "Upstream holds this history itself, so nothing is injected.",
  no_scope: "The request has no credential, so nothing is stored or injected.",
  unreadable: "The body is invalid or ambiguous JSON. It was forwarded unchanged.",
  encoded: "The body could not be decoded. It was forwarded unchanged.",
  too_large: "The request is too large to inspect. It was forwarded unchanged.",
  busy: "The memory for inspection was used up. The request was forwarded unchanged.",
  store_failed: "The store failed, so nothing was injected.",
  budget_exceeded: "The store took longer than store_budget_ms, so nothing was injected.",
  failed: "Replay failed because of a bug in the proxy. The request was forwarded unchanged.",
  off: "Replay is off.",
};
const CAPTURED = {
  saved: "saved", late: "being saved; the store has not confirmed it yet", nothing: "nothing to recognise the response by",
  store_failed: "lost, the store failed", too_large: "lost, the response is too large", unreadable: "lost, the response cannot be read",
  failed: "lost because of a bug in the proxy", refused: "nothing, because upstream refused",
  busy: "lost, the memory for inspection was used up",
};
const REPAIRS = {
  duplicates: "reasoning twice in a row is sent once",
  hollow: "a bare id is completed as captured",
  foreign: "reasoning of another model or account is replaced or left out",
  unpaired: "a pair is sent with both ids, or with neither",
  learned: "what cured this conversation before is done again",
  dangling: "reasoning that led to nothing is left out",
};
const WRONG_PATH = {
  lacks_v1: "the base URL lacks /v1",
  double_v1: "the path begins with /v1 twice",
  endpoint: "the base URL ends in an endpoint",
  double_slash: "the base URL ends in a slash",
  trailing_slash: "the path ends in a slash",
  other_version: "only /v1 stands for upstream_url",
  misspelt: "the path is misspelt",
  letter_case: "capital letters in the path", prefix: "a segment in front of the version",
  lacks_api: "the upstream lacks this API",
  upstream_lacks_v1: "upstream_url has no path; most APIs are at /v1",
  needs_responses: "this model needs /responses for tools",
};
const CACHE = {
  hit: "the prompt begins as the one before; if little was read, the cache has expired",
  not_found: "upstream no longer knows the response before", unavailable: "upstream cannot tell",
  pending: "upstream was still comparing", none: "upstream did not tell",
};
const ENDED = {
  refused: "refused by upstream", upstream_error: "upstream error", cut_off: "cut off",
  client_gone: "client left", client_stalled: "client stalled",
};

const $ = (id) => document.getElementById(id);
const make = (tag, kind, text) => {
  const node = document.createElement(tag);
  if (tag === "button") node.type = tag;
  if (kind) node.className = kind;
  if (text !== undefined) node.textContent = text;
  return node;
};
const count = (n) => Math.round(n).toLocaleString("en");
// A part of a number is written in the unit of the whole, unless it is too small for that.
const many = (n, whole = n) => whole < 1e4 ? count(n) : n < whole / 200 ? many(n) : whole < 999_500 ? `${(n / 1e3).toFixed(whole < 99_950 ? 1 : 0)}K` : `${(n / 1e6).toFixed(1)}M`;
const bytes = (n) => n < 1000 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} KB` : `${(n / 1e6).toFixed(1)} MB`;
const lasting = (ms) => ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : ms < 1e5 ? `${(ms / 1e3).toFixed(2)} s` : `${(ms / 6e4).toFixed(1)} min`;
const share = (part, all) => `${Math.floor(100 * part / all)} %`;
const several = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
const sum = (numbers) => Object.values(numbers || {}).reduce((a, b) => a + b, 0);
const plain = (word) => word.replaceAll("_", " ");
const capital = (word) => word[0].toUpperCase() + word.slice(1);
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const named = (item) => item[2] ? `${item[1]} ${item[2]}` : item[1] || "an item without a type";
const injected = () => facts.mode === "shadow" ? "would be injected" : "injected";
const added = (e) => e.before_ms + e.between_ms + e.after_ms;
const ended = (e) => e.open ? "in flight" : `${e.status || "no response"} ${e.outcome === "ok" ? "" : ENDED[e.outcome] || e.outcome}`.trim();
// A healed request has ended well: its error is that of the first attempt.
const errorOf = (e) => e.healed ? "" : e.error_code || e.error_type || e.error;
const origin = () => new URL(facts.listen.replace(/\/\/(0\.0\.0\.0|\[::\])/, `//${location.hostname}`)).origin;
// Clients of some APIs add the version themselves.
const baseUrl = ({ upstream: at, route }) => origin() + (at && `/${at}`) + (facts.bases[route] ?? (`, ${facts.profile}`.match(`, (${at}=)?anthropic(,|$)`) ? "" : "/v1"));
// Why nothing is injected on this path; empty if the proxy acts on it, or did not forward it.
const pathOf = (e) => {
  if (e.wrong_path) return `${WRONG_PATH[e.wrong_path]}; the base URL for clients is ${baseUrl(e)}`;
  const isPassed = e.outcome === "ok" || e.outcome in ENDED;
  return isPassed && facts.mode !== "off" && facts.handled && !facts.handled.includes(e.route) ? `reasoning is injected on ${facts.replayed.join(", ")}` : "";
};
// What upstream told of its prompt cache.
const cacheOf = (e) => !e.cache.cache ? "" : e.cache.cache_reason ? `missed, ${plain(e.cache.cache_reason)}, ${several(e.cache.cache_missed_tokens, "token")}` : CACHE[e.cache.cache];
// Why reasoning is lacking, and the forms of other items: each word with its number.
const reasons = (e) => Object.entries(e.outcomes).filter(([what]) => what in WHY);

// The words for a conversation come from its id: they are the same in each page and process.
const TREES = "acacia alder almond apple ash aspen bamboo bay beech birch box briar cedar cherry citron cypress elder elm fern fig fir gorse hazel heath holly hop iris ivy jasmine juniper larch laurel lemon lilac lime linden lotus maple mint moss myrtle oak olive palm peach pear pecan pine plum poplar privet quince reed rowan rush sage sorrel spruce teak thyme vine walnut willow yew".split(" ");
const keyOf = (e) => e.scope && e.conversation ? `${e.scope}:${e.conversation}` : "";
const idOf = (key) => key.slice(key.indexOf(":") + 1);
const digits = (key, from, n) => parseInt(idOf(key).slice(from, from + n), 16) || 0;
const nameOf = (key) => `${TREES[digits(key, 4, 2) % TREES.length]}-${idOf(key).slice(0, 3)}`;
// Without reds, which stand for errors.
const hueOf = (key) => 60 + 15 * (digits(key, 6, 4) % 20);

function chipOf(key) {
  const chip = make("button", "chip", nameOf(key));
  chip.title = `Show only conversation ${idOf(key)}`;
  chip.style.setProperty("--hue", hueOf(key));
  chip.onclick = () => {
    choose({ conversation: key }, true);
    $("tools").scrollIntoView({ block: "nearest" });
  };
  return chip;
}
