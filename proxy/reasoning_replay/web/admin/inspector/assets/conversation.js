// One conversation: its requests as strips under one another. An item has the same place in each
// strip, so one sees how the history grows.

const TURNS_MAX = 60, ITEM_PX = 20, MARK_PX = 27, GAP_PX = 46;

// The place of each item and of the marks before it, in pixels; `gaps` are items that no turn shows.
function columnsOf(turns) {
  const items = new Set(), marks = new Map();
  for (const e of turns) {
    for (const { item, number } of entriesOf(e)) if (item) items.add(number);
    for (const [at, notes] of marksOf(e)) {
      const n = notes.filter(isMark).length;
      if (n) marks.set(at, Math.max(n, marks.get(at) || 0));
    }
  }
  const columns = { items: new Map(), marks: new Map(), gaps: [], width: 0 };
  const total = Math.max(0, ...turns.map((e) => e.items));
  let x = 0, gap = null;
  for (let number = 0; number < total; number += 1) {
    if (marks.has(number)) { columns.marks.set(number, x); x += MARK_PX * marks.get(number); gap = null; }
    if (items.has(number)) { columns.items.set(number, x); x += ITEM_PX; gap = null; continue; }
    if (!gap) { columns.gaps.push(gap = { from: number, to: number, x }); x += GAP_PX; }
    gap.to = number + 1;
    columns.items.set(number, gap.x);
  }
  columns.width = x;
  return columns;
}

function lineOf(e, columns) {
  const line = make("div", "line"), marks = new Map();
  line.style.width = `${columns.width}px`;
  const add = (node, x) => { node.style.left = `${x}px`; line.append(node); };
  for (const { item, number, notes, place } of entriesOf(e)) {
    for (const note of notes.filter(isMark)) {
      const x = marks.get(note[0]) ?? columns.marks.get(note[0]);
      add(markOf(note, place), x);
      marks.set(note[0], x + MARK_PX);
    }
    if (item) add(blockOf(item, number, notes), columns.items.get(number));
  }
  for (const gap of columns.gaps) {
    const n = Math.min(gap.to, e.items) - gap.from;
    if (n > 0) add(make("span", "fold", `⋯${n < 1000 ? n : many(n)}`), gap.x);
  }
  return toolbarOf(e, line);
}

function turnOf(e, number, columns) {
  const turn = make("li"), head = headOf(e);
  turn.dataset.id = e.id;
  turn.classList.toggle("open", e.open);
  turn.classList.toggle("bad", SHOWS.errors(e));
  head.prepend(make("span", "number", count(number)));
  if (e.route !== "responses") head.append(make("span", "soft", e.route));
  const said = [];
  if (e.outcomes.injected) said.push(`${count(e.outcomes.injected)} ${injected()}`);
  for (const [what, n] of reasons(e)) said.push(`${count(n)} ${plain(what)}`);
  if (e.healed) said.push(`healed (${plain(e.healed)})`);
  if (e.asked === "stateful") said.push("upstream holds the history");
  if (e.tokens.input_tokens && e.tokens.cached_tokens !== null) said.push(`${share(e.tokens.cached_tokens, e.tokens.input_tokens)} of ${many(e.tokens.input_tokens)} input tokens cached`);
  head.append(make("span", "soft", said.join(" · ")));
  turn.append(head, lineOf(e, columns));
  if (view.exchange && e.request_id === view.exchange) turn.setAttribute("aria-current", "true");
  return turn;
}

let talked = "";
function showTalk() {
  const key = view.conversation, all = key ? shownNow() : [], turns = all.slice(-TURNS_MAX);
  $("talk").hidden = !key || !all.length;
  const said = [key, view.exchange, ...turns.map((e) => e.id + e.open)].join();
  if (said === talked) return;
  talked = said;
  const held = document.activeElement?.closest("#turns > li")?.dataset.id;
  if (!key || !all.length) { $("turns").replaceChildren(); return; }
  $("talk-name").textContent = nameOf(key);
  $("talk").style.setProperty("--hue", hueOf(key));
  const { injected: back, input, cached } = sumsOf(all);
  $("talk-facts").textContent = [
    turns.length < all.length ? `the newest ${turns.length} of ${several(all.length, "request")}` : several(all.length, "request"),
    [...new Set(all.map((e) => e.model))].filter(Boolean).join(", "),
    `${several(back, "item")} ${injected()}`,
    input && `${share(cached, input)} of ${many(input)} input tokens cached`,
  ].filter(Boolean).join(" · ");
  const columns = columnsOf(turns), box = $("turns-box");
  const isAtEnd = box.scrollLeft + box.clientWidth >= box.scrollWidth - 2;
  $("turns").replaceChildren(...turns.map((e, i) => turnOf(e, all.length - turns.length + i + 1, columns)));
  if (isAtEnd) box.scrollLeft = box.scrollWidth; // the newest items are at the right
  $("turns").querySelector(`[data-id="${held}"] .when`)?.focus();
}
