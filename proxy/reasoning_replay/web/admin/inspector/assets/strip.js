// Strips: the items of one request as blocks, their tooltips, and the keys that move between them.

const WHOLE = 40, HEAD = 6, TAIL = 18, FOLD_MIN = 4, WORDS_MAX = 10;

// The notes of an exchange by item number, from 0; those of one kind at one place are added up.
function marksOf(e) {
  const marks = new Map();
  for (const [i, was, n, size, id] of e.strip.notes) {
    // The event does not show which of several were refused, but it shows if all of them were.
    const what = was === "injected" && e.outcomes.refused && !e.outcomes.injected ? "refused" : was;
    const here = marks.get(i) || marks.set(i, []).get(i), same = here.find((note) => note[1] === what);
    if (same) { same[2] += n; same[3] += size; same[4].push(id); } else here.push([i, what, n, size, [id]]);
  }
  return marks;
}
const isMark = (note) => !["degraded", "present", "phase"].includes(note[1]);

// The items of an exchange with the notes before each. Where items are left out, `item` is null, and
// one entry stands for all of them: `n` is their number.
function entriesOf(e) {
  const marks = marksOf(e);
  let next = 0;
  return e.strip.items.map((item) => {
    const isGap = typeof item === "number", n = isGap ? item : 1, number = next;
    next += n;
    const notes = Array.from({ length: n }, (_, i) => marks.get(number + i) || []).flat();
    return { item: isGap ? null : item, n, number, notes, place: isGap ? "these items" : named(item) };
  });
}

function stripOf(e) {
  const strip = make("div", "strip"), entries = entriesOf(e), { isWhole } = rows.get(e.id) || {};
  const hasWords = entries.length <= WORDS_MAX && entries.every(({ item }) => item);
  let run = [];
  const fold = () => {
    if (run.length < FOLD_MIN) strip.append(...run.map(({ item, number }) => blockOf(item, number)));
    else strip.append(foldOf(e, strip, run.length));
    run = [];
  };
  entries.forEach((entry, i) => {
    const { item, n, number, notes, place } = entry;
    if (item && !isWhole && entries.length > WHOLE && i >= HEAD && i < entries.length - TAIL && !notes.length) {
      run.push(entry);
      return;
    }
    fold();
    const marks = notes.filter(isMark).map((note) => markOf(note, place));
    if (item) strip.append(...marks, blockOf(item, number, notes, hasWords));
    else {
      const gap = make("span", "fold", `⋯ ${count(n)} ⋯`);
      gap.title = `${count(n)} items without a note are left out`;
      strip.append(gap, ...marks);
    }
  });
  fold();
  return toolbarOf(e, strip);
}

function toolbarOf(e, blocks) {
  blocks.setAttribute("role", "toolbar");
  blocks.setAttribute("aria-label", `${several(e.items, "item")} of the input; arrow keys move`);
  return blocks;
}

function foldOf(e, strip, n) {
  const button = make("button", "b fold", `⋯ ${count(n)}`);
  button.tabIndex = -1;
  button.setAttribute("aria-label", `${count(n)} more items, show them`);
  button.onclick = () => {
    rows.get(e.id).isWhole = true;
    const again = stripOf(e), here = [...strip.children].indexOf(button);
    strip.replaceWith(again);
    hold(again.children[here]);
  };
  return button;
}

function blockOf(item, number, notes, hasWord) {
  const letter = item[0] in KINDS ? item[0] : "o";
  const block = make("button", `b ${letter}`, KINDS[letter][hasWord ? 1 : 0]);
  block.style.minWidth = `${Math.round(Math.min(44, Math.max(17, 4 * Math.log2(item[3] / 24 + 2))))}px`;
  const told = [named(item), `item ${count(number + 1)}, ${KINDS[letter].at(-1)}, ${bytes(item[3])}`];
  for (const note of notes || []) {
    if (note[1] === "degraded") { block.classList.add("stripped"); told.push(`Degraded: ${WHY.degraded}`); }
    else if (note[1] === "phase") told.push(`Phase: ${WHY.phase}`);
    else if (note[1] === "present") told.push("The client sends reasoning of its own here");
  }
  return toldBy(block, told);
}

function markOf([, what, n, size, ids], place) {
  const isBack = what === "injected";
  const mark = make("button", isBack ? "b plus" : "b hole", isBack ? (n > 1 ? `+${n}` : "+") : n > 1 ? `?${n}` : "?");
  const lines = isBack
    ? [`${several(n, "reasoning item")} ${injected()}`, ...ids.filter(Boolean), `${bytes(size)}, before ${place}`]
    : [`Reasoning ${plain(what)}`, `Before ${place}`, `${WHY[what] || what}`];
  return toldBy(mark, lines);
}

function toldBy(block, lines) {
  block.tabIndex = -1;
  return tellBy(block, lines);
}
function tellBy(block, lines) {
  block.lines = lines;
  if (block.ariaLabel !== lines.join(". ")) block.ariaLabel = lines.join(". ");
  return block;
}

for (const [kind, names] of [...Object.entries(KINDS), ["plus", ["+", "injected"]], ["hole", ["?", "lacking"]]]) {
  const span = make("span");
  span.append(make("i", kind, names[0]), names.at(-1));
  $("key").append(span);
}

// Tooltips

const tip = $("tip");
let tipped = null, isDismissed = false;
function showTip(event) {
  if (isDismissed && event.type === "mouseover") return; // the page moved, and not the pointer
  tipped = event.target.closest?.(".b, .minute");
  if (tipped?.lines) tip.replaceChildren(...tipped.lines.map((line) => make("p", "", line)));
  placeTip();
}

// To the right of the row's text if there is room, so that it covers none; else below or above its block.
function placeTip() {
  tip.hidden = !tipped?.lines || !tipped.isConnected;
  if (tip.hidden) return;
  const box = tipped.getBoundingClientRect(), size = tip.getBoundingClientRect(), row = tipped.closest("#rows > li");
  const text = row ? [...row.querySelectorAll(".head > :not(.end), .strip > :last-child, .words")] : [];
  const right = 20 + Math.max(0, ...text.map((part) => part.getBoundingClientRect().right));
  const hasRoom = row && right + size.width < row.querySelector(".end").getBoundingClientRect().left && tipped.parentNode.offsetHeight < 40;
  const left = hasRoom ? right : Math.min(innerWidth - size.width - 8, Math.max(8, box.left + box.width / 2 - size.width / 2));
  const top = hasRoom ? Math.min(innerHeight - size.height - 8, Math.max(8, box.top + box.height / 2 - size.height / 2))
    : box.bottom + size.height + 16 < innerHeight ? box.bottom + 8 : box.top - size.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}
function hideTip() {
  tipped = null;
  tip.hidden = true;
}
for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, showTip);
for (const kind of ["focusout", "scroll"]) document.addEventListener(kind, hideTip, true);
document.addEventListener("pointermove", (event) => {
  if (!isDismissed || !(event.movementX || event.movementY)) return;
  isDismissed = false;
  showTip(event);
});

// Keys: one row is in the tab order, with its time, its conversation and one of its blocks.

let stop = null;
const ROW = "#rows > li, #turns > li, #talks tbody tr";
const stopsOf = (row) => [row.querySelector(".when"), row.querySelector(".chip"), row.querySelector(".strip [tabindex='0'], .line [tabindex='0']") || row.querySelector(".strip button, .line button")];

function setStop(row) {
  if (stop && stop !== row) for (const node of stop.querySelectorAll("[tabindex='0']")) node.tabIndex = -1;
  stop = row;
  for (const node of row ? stopsOf(row) : []) if (node) node.tabIndex = 0;
}
function keepStop() {
  if (document.activeElement?.closest(ROW) !== stop || !stop) {
    setStop(document.querySelector(view.conversation ? "#turns > li" : view.list ? "#talks tbody tr" : "#rows > li:not([hidden])"));
  }
}
document.addEventListener("focusin", (event) => {
  const row = event.target.closest(ROW);
  if (row) setStop(row);
});

function hold(block) {
  if (!block) return;
  for (const other of block.closest(".strip, .line, #charts").querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  block.tabIndex = 0;
  block.focus();
}

document.addEventListener("keydown", (event) => {
  const isField = event.target.matches?.("input:not([type=radio]), select");
  if (event.key === "Escape") {
    const wasTold = !tip.hidden;
    hideTip();
    isDismissed = true;
    if (!$("details").hidden) { closeDetails(); event.preventDefault(); }
    else if (view.conversation && !wasTold && !isField) $("leave").click();
    return;
  }
  if (event.key === "/" && !isField && !event.ctrlKey && !event.altKey && !event.metaKey && !$("live").hidden) {
    event.preventDefault();
    $("q").focus();
    return;
  }
  const row = event.target.closest?.(ROW), isUpOrDown = event.key === "ArrowDown" || event.key === "ArrowUp";
  if (event.target.matches?.(".minute") && isUpOrDown) { // the same minute of the next chart
    const all = [...bars.values()], at = all.findIndex((some) => some.includes(event.target));
    event.preventDefault();
    hold(all[at + (event.key === "ArrowDown" ? 1 : -1)]?.[all[at].indexOf(event.target)]);
    return;
  }
  if (row && isUpOrDown) {
    let to = row;
    do to = event.key === "ArrowDown" ? to.nextElementSibling : to.previousElementSibling; while (to?.hidden);
    if (!to) return;
    event.preventDefault();
    fillNow(to);
    const kind = event.target.matches(".when") ? 0 : event.target.matches(".chip") ? 1 : 2, stops = stopsOf(to);
    (stops[kind] || stops[0]).focus();
    to.scrollIntoView({ block: "nearest" });
    if (view.exchange && rows.has(to.dataset.id)) choose({ exchange: rows.get(to.dataset.id).e.request_id });
    return;
  }
  const block = event.target.closest?.(".strip button, .line button, .minute");
  if (!block) return;
  const all = [...block.parentNode.querySelectorAll("button:not([hidden])")];
  const to = { ArrowRight: all.indexOf(block) + 1, ArrowLeft: all.indexOf(block) - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || !all[to]) return;
  event.preventDefault();
  hold(all[to]);
});
