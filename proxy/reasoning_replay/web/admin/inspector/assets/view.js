// The view: what is shown, in the address of the page, so that a reload and a link keep it.

const DEFAULTS = { show: "all", conversation: "", model: "", status: "", q: "", minute: "", list: "", exchange: "", paused: "" };
const FILTERS = ["show", "conversation", "model", "status", "q", "minute"];
const SHOWS = {
  all: () => true,
  injected: (e) => Boolean(e.outcomes.injected),
  lacking: (e) => Boolean(e.outcomes.lacking),
  healed: (e) => Boolean(e.healed) || sum(e.repairs) > 0,
  errors: (e) => !e.open && e.outcome !== "ok",
  mine: (e) => !(facts.agents || []).includes(e.scope),
};
const view = { ...DEFAULTS };

function readAddress() {
  const told = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) view[name] = told.get(name) || DEFAULTS[name];
  if (!(view.show in SHOWS)) view.show = "all";
  for (const pick of document.getElementsByName("show")) pick.checked = pick.value === view.show;
  $("q").value = view.q;
}

// Changes the view. `isStep`: the browser's way back leads to the view before. An exchange that a
// new filter hides is not left in the pane.
function choose(changes, isStep) {
  Object.assign(view, changes);
  if (detailed && FILTERS.some((name) => name in changes) && !isShown(detailed)) view.exchange = "";
  const told = new URLSearchParams(Object.entries(view).filter(([name, value]) => value !== DEFAULTS[name]));
  const address = `${location.pathname}${location.search}${told.size ? `#${told}` : ""}`;
  history[isStep ? "pushState" : "replaceState"](null, "", address);
  render();
  showCharts();
}

const statusOf = (e) => e.open ? "in flight" : String(e.status || "none");
// The minute of the charts in which it ended.
const minuteOf = (e) => e.open ? 0 : Math.floor((e.at_ms + e.total_ms) / 60000);
const texts = new WeakMap();
function textOf(e) {
  if (!texts.has(e)) {
    const key = keyOf(e);
    const own = [e.request_id, e.upstream_request_id, e.trace_id, e.scope, key, key && nameOf(key), e.turn, e.parent, e.upstream, e.route, e.model, e.error_code, e.error_type];
    const items = e.strip.items.map((item) => item[2]), back = e.strip.notes.map((note) => note[4]);
    texts.set(e, [...own, ...items, ...back].filter(Boolean).join(" ").toLowerCase());
  }
  return texts.get(e);
}

function isShown(e) {
  return SHOWS[view.show](e) && (!view.conversation || keyOf(e) === view.conversation) && (!view.model || e.model === view.model)
    && (!view.status || statusOf(e) === view.status) && (!view.minute || minuteOf(e) === Number(view.minute)) && (!view.q || textOf(e).includes(view.q.trim().toLowerCase()));
}

const isFiltered = () => FILTERS.some((name) => view[name] !== DEFAULTS[name]);
// All exchanges that are shown, oldest first.
const shownNow = () => [...rows.values()].map((row) => row.e).filter(isShown).sort((a, b) => a.at_ms - b.at_ms);

function offer(id, every, values) {
  const select = $(id), all = [...new Set([...values, view[id]])].filter(Boolean);
  const said = all.join("\n");
  if (select.dataset.said !== said) {
    select.dataset.said = said;
    select.replaceChildren(...["", ...all].map((value) => {
      const option = make("option", "", value || every);
      option.value = value;
      return option;
    }));
  }
  select.value = view[id];
  select.classList.toggle("set", Boolean(view[id]));
}

function render() {
  const all = [...rows.values()].map((row) => row.e);
  offer("model", "All models", all.map((e) => e.model).sort());
  offer("status", "All statuses", all.map(statusOf).sort());
  let n = 0;
  for (const { e, node } of rows.values()) {
    node.hidden = !isShown(e);
    n += !node.hidden;
    const isChosen = Boolean(view.exchange) && e.request_id === view.exchange;
    if (isChosen) node.setAttribute("aria-current", "true"); else node.removeAttribute("aria-current");
  }
  $("rows").hidden = !n || Boolean(view.conversation || view.list);
  $("empty").hidden = rows.size > 0 || isFiltered();
  $("none").hidden = n > 0 || !$("empty").hidden;
  $("reset").hidden = !isFiltered();
  $("back").hidden = rows.size < PAGE || isAllHere || Boolean(view.conversation || view.list);
  $("export").disabled = !n;
  const which = [view.minute && `ended at ${clock(view.minute * 60000).slice(0, 5)}`, view.exchange && rows.size && !exchangeOf() && "that of the address is no longer here"];
  $("shown").textContent = [!rows.size ? "" : `${n < rows.size ? `${count(n)} of ` : ""}${rows.size < PAGE ? "" : "the newest "}${several(rows.size, "exchange")}`, ...which].filter(Boolean).join(", ");
  $("pause").textContent = view.paused ? (waiting.size ? `Resume, ${count(waiting.size)} new` : "Resume") : "Pause";
  $("pause").setAttribute("aria-pressed", Boolean(view.paused));
  showList();
  showTalk();
  showDetails();
  keepStop();
}

for (const pick of document.getElementsByName("show")) pick.onchange = () => choose({ show: pick.value });
for (const id of ["model", "status"]) $(id).onchange = () => choose({ [id]: $(id).value });
$("q").oninput = () => choose({ q: $("q").value });
$("reset").onclick = () => {
  choose(Object.fromEntries(FILTERS.map((name) => [name, DEFAULTS[name]])), true);
  readAddress();
  $("q").focus();
};
$("leave").onclick = () => { choose({ conversation: "" }, true); $("list").focus(); };
$("pause").onclick = () => {
  // A pause is the time of the newest exchange, so a reload shows the same ones. The time of an
  // exchange differs by a millisecond from one event stream to the next.
  const newest = 2 + Math.max(0, ...[...rows.values()].map((row) => row.e.at_ms));
  choose({ paused: view.paused ? "" : String(newest) });
  flush();
  setLink("live");
};
$("clear").onclick = () => {
  rows.clear();
  rowsMax = PAGE;
  isAllHere = false;
  waiting.clear();
  $("rows").replaceChildren();
  choose({ exchange: "" });
};
$("export").onclick = () => {
  const lines = shownNow().map((e) => `${JSON.stringify(e)}\n`);
  save(`reasoning-replay-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.jsonl`, lines);
};
function save(name, parts) {
  const link = make("a");
  link.href = URL.createObjectURL(new Blob(parts, { type: "application/x-ndjson" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
window.addEventListener("popstate", () => { readAddress(); render(); });
