// Rows: all exchanges, newest first.

const PAGE = 200, AT_ONCE = 12;
const rows = new Map(); // id -> { e, node, isWhole }
let waiting = new Map();
let rowsMax = PAGE, isAllHere = false; // whether no older exchange is kept
let facts = {}, timer = 0, pace = 80, lost = 0;
let detailed = null; // the exchange in the pane

function headOf(e, chip = "") {
  const head = make("div", "head"), at = new Date(e.at_ms);
  const when = make("button", "when mono", clock(e.at_ms));
  when.tabIndex = -1;
  when.title = `${at.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "long" })}. Enter shows the details.`;
  when.setAttribute("aria-label", `${clock(e.at_ms)}, ${ended(e)}, details`);
  head.append(when, chip, make("span", "state", ended(e)));
  if (errorOf(e)) head.append(make("span", "error mono", errorOf(e)));
  return head;
}

function rowOf(e) {
  const row = make("li"), key = keyOf(e), chip = key && chipOf(key), head = headOf(e, chip);
  row.classList.toggle("open", e.open);
  row.classList.toggle("bad", SHOWS.errors(e));
  if (key) {
    chip.tabIndex = -1;
    row.style.setProperty("--hue", hueOf(key));
    row.classList.add("ours");
  }
  head.append(make("span", "soft", e.asked || !e.method ? e.route : `${e.method} ${e.route}`));
  if (e.model) head.append(make("span", "", e.model));
  const end = make("span", "end");
  const measure = (label, value) => {
    const span = make("span", "", `${label} `);
    span.append(make("b", "", value));
    end.append(span);
  };
  if (e.items) measure("items", count(e.items));
  if (e.captured_items) measure("captured", count(e.captured_items));
  if (e.tokens.input_tokens && e.tokens.cached_tokens) measure("cached", share(e.tokens.cached_tokens, e.tokens.input_tokens));
  if (e.asked) measure("added", lasting(added(e)));
  if (e.first_byte_ms) measure("first byte", lasting(e.first_byte_ms));
  if (e.total_ms !== null) measure("took", lasting(e.total_ms));
  head.append(end);
  row.append(head);
  if (e.strip.items.length) row.append(make("div", "strip"));
  const words = wordsOf(e);
  if (words.childNodes.length) row.append(words);
  return row;
}

function wordsOf(e) {
  const words = make("p", "words");
  const say = (strong, rest, kind) => {
    if (words.childNodes.length) words.append(" ");
    if (strong) words.append(make("b", kind, strong));
    words.append(rest);
  };
  const n = e.outcomes.injected, repaired = sum(e.repairs), path = pathOf(e);
  if (n) {
    const marks = e.strip.notes.filter((note) => note[1] === "injected");
    const size = e.injected_bytes || marks.reduce((all, note) => all + note[3], 0);
    const item = marks.every((note) => note[0] === marks[0][0]) && marks.length && e.items === e.strip.items.length && e.strip.items[marks[0][0]];
    const place = Array.isArray(item) ? ` before ${named(item)}` : "";
    say(`${several(n, "reasoning item")} ${injected()}`, `${place}${size ? `, ${bytes(size)}` : ""}.`);
  }
  for (const [what, n] of reasons(e)) say(`${count(n)} ${plain(what)}:`, ` ${WHY[what]}.`, "hmm");
  if (e.outcomes.present) say("", `${count(e.outcomes.present)} sent by the client itself.`);
  if (path) say(e.wrong_path ? "Wrong path:" : "Passed through:", ` ${path}.`, e.wrong_path ? "hmm" : "");
  if (e.asked in ASKED) say("", ASKED[e.asked]);
  if (repaired) say("", `${several(repaired, "item")} repaired before the first attempt.`);
  if (e.cache.cache_reason) say("Cache:", ` ${cacheOf(e)}.`, "hmm");
  if (e.healed) say("Healed:", ` upstream refused the first attempt (${[plain(e.healed), e.error_code].filter(Boolean).join(", ")}), shown here, and accepted the second.`);
  return words;
}

// A burst takes at most a fifth of the time. Of many rows, only the visible ones are filled.
function flush() {
  timer = 0;
  const from = performance.now(), arrived = waiting;
  waiting = new Map();
  for (const e of arrived.values()) {
    if (view.paused && (e.at_ms > Number(view.paused) || rows.has(e.id))) waiting.set(e.id, e);
    else put(e, arrived.size <= AT_ONCE);
  }
  tidy();
  placeTip();
  pace = Math.max(80, 4 * (performance.now() - from));
}

const sight = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) if (isIntersecting) fillNow(target);
}, { rootMargin: "400px" });

function fillNow(node) {
  const strip = node.querySelector(".strip:empty"), row = rows.get(node.dataset.id);
  if (!strip || !row) return;
  sight.unobserve(node);
  strip.replaceWith(stripOf(row.e));
  if (node === stop) setStop(node);
}

function put(e, isAlone) {
  const old = rows.get(e.id);
  if (old && !old.e.open) return;
  const node = rowOf(e);
  node.dataset.id = e.id;
  rows.set(e.id, { e, node, isWhole: old?.isWhole });
  node.hidden = !isShown(e);
  if (isAlone || (old && !old.node.querySelector(".strip:empty"))) fillNow(node); else sight.observe(node);
  if (old) {
    const held = old.node.contains(document.activeElement) && document.activeElement;
    const at = [...old.node.querySelectorAll(".strip button")].indexOf(held);
    old.node.replaceWith(node);
    if (at >= 0) hold(node.querySelectorAll(".strip button")[at]);
    else if (held) node.querySelector(held.matches(".chip") ? ".chip" : ".when").focus();
  } else {
    node.classList.add("fresh");
    let next = $("rows").firstChild;
    while (next && rows.get(next.dataset.id).e.at_ms > e.at_ms) next = next.nextSibling;
    $("rows").insertBefore(node, next);
  }
}

function forget(id) {
  const row = rows.get(id);
  row?.node.remove();
  rows.delete(id);
}

function tidy() {
  while (rows.size > rowsMax) forget($("rows").lastChild.dataset.id);
  render();
}

// Older exchanges, page by page, until one of them is shown.
$("older").onclick = async () => {
  $("older").disabled = true;
  try {
    for (const before = shownNow().length; !isAllHere && shownNow().length <= before;) {
      const oldest = $("rows").lastChild;
      const answer = await fetch(`inspector/exchanges?before=${oldest.dataset.id}`, { headers: authorization(), cache: "no-store", credentials: "omit" });
      const lines = answer.ok ? (await answer.text()).split("\n").filter(Boolean) : [];
      rowsMax += lines.length;
      for (const line of lines) put(JSON.parse(line).exchange);
      tidy();
      isAllHere = lines.length < PAGE || oldest === $("rows").lastChild;
    }
  } finally {
    $("older").disabled = false;
    render();
  }
};

// A click on a row, except on its other buttons, shows the details; not the end of a selection.
document.addEventListener("click", (event) => {
  const row = event.target.closest(ROW);
  if (!row || event.target.closest(".chip, .fold") || (!event.target.closest("button") && String(getSelection()))) return;
  if (row.dataset.key) row.querySelector(".chip").click();
  else openDetails(row.dataset.id);
});
