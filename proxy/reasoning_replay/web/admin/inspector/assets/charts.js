// Totals since the start, and charts of the last hour.

const MINUTES = 60, CHART_H = 40, BAR = 4;
const SVG = "http://www.w3.org/2000/svg";
const minutes = new Map(); // minute since the epoch -> its sums
let newest = 0;

const part = (part, all) => all ? 100 * part / all : null;
// Of each chart: its title, the value of a minute, how a value is written, the value of the hour, and what it is made of.
const CHARTS = [
  ["rate", "Requests a minute", (m) => m.requests, (v) => count(v), (h) => count(h.requests / Math.max(1, h.minutes)), (h, most) => `${count(h.requests)} in the last hour, at most ${count(most)} a minute`],
  ["back", "Injected share", (m) => part(m.injected, m.injected + m.lacking), (v) => `${Math.floor(v)} %`, (h) => h.injected + h.lacking ? share(h.injected, h.injected + h.lacking) : "–", (h) => `${count(h.injected)} of ${count(h.injected + h.lacking)} items that clients left out`],
  ["cache", "Cache hits", (m) => part(m.cached, m.input), (v) => `${Math.floor(v)} %`, (h) => h.input ? share(h.cached, h.input) : "–", (h) => `${many(h.cached)} of ${many(h.input)} input tokens`],
  ["latency", "Added latency", (m) => m.requests ? m.added_ms / m.requests : null, lasting, (h) => h.requests ? lasting(h.added_ms / h.requests) : "–", (h, most) => `mean; ${lasting(most)} in the slowest minute`],
];
const bars = new Map();

for (const [id, title] of CHARTS) {
  const figure = make("figure"), svg = document.createElementNS(SVG, "svg");
  figure.id = `chart-${id}`;
  svg.setAttribute("viewBox", `0 0 ${MINUTES * BAR} ${CHART_H}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  bars.set(id, Array.from({ length: MINUTES }, (_, i) => {
    const minute = document.createElementNS(SVG, "g"), back = rect(i * BAR, 0, BAR, CHART_H, "back"), bar = rect(i * BAR + .5, CHART_H, BAR - 1, 0, "value");
    minute.setAttribute("class", "minute");
    minute.append(back, bar);
    svg.append(minute);
    return minute;
  }));
  const caption = make("figcaption");
  caption.append(make("span", "", title), make("b"));
  figure.append(caption, svg, make("small"));
  $("charts").append(figure);
}

function rect(x, y, width, height, kind) {
  const node = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, class: kind })) node.setAttribute(name, value);
  return node;
}

function noteMinutes(told, now) {
  for (const [minute, requests, back, lacking, input, cached, added_ms] of told) {
    minutes.set(minute, { requests, injected: back, lacking, input, cached, added_ms });
  }
  for (const minute of minutes.keys()) if (minute <= now - MINUTES) minutes.delete(minute);
  newest = now;
}

function showCharts() {
  const all = [...minutes.values()], first = Math.min(newest, ...minutes.keys());
  const hour = { minutes: newest - first + 1, requests: 0, injected: 0, lacking: 0, input: 0, cached: 0, added_ms: 0 };
  for (const m of all) for (const name of Object.keys(m)) hour[name] += m[name];
  for (const [id, title, valueOf, written, whole, madeOf] of CHARTS) {
    const values = all.map(valueOf).filter((value) => value !== null), most = Math.max(0, ...values);
    const top = id === "back" || id === "cache" ? 100 : most || 1;
    bars.get(id).forEach((bar, i) => {
      const minute = newest - MINUTES + 1 + i, m = minutes.get(minute), value = m ? valueOf(m) : null;
      const height = value === null ? 0 : Math.max(1.5, CHART_H * value / top);
      bar.lastChild.setAttribute("height", height);
      bar.lastChild.setAttribute("y", CHART_H - height);
      bar.lines = [clock(minute * 60000).slice(0, 5), value === null ? "none" : `${title}: ${written(value)}`];
    });
    const figure = $(`chart-${id}`), now = whole(hour), small = hour.requests ? madeOf(hour, most) : "no requests in the last hour";
    figure.querySelector("b").textContent = now;
    figure.querySelector("small").textContent = small;
    figure.querySelector("svg").setAttribute("aria-label", `${title}: ${now}; ${small}`);
  }
}

function figure(id, value, small, kind) {
  $(id).replaceChildren(String(value), make("small", "", small || ""));
  $(id).className = kind || "";
}

function showState(state) {
  const t = state.totals, items = t.items_total, requests = sum(t.requests_total);
  const read = (t.requests_total.planned || 0) + (t.requests_total.stateful || 0), unread = requests - read;
  const other = sum(Object.fromEntries(Object.entries(items).filter(([what]) => what in WHY && what !== "degraded" && what !== "phase" && what !== "missed")));
  // The same item is injected in each turn, so the number of different items is told as well. They
  // are counted only while a page is open.
  const different = state.different ? `${state.different_is_more ? "more than " : ""}${count(state.different)} different while watched` : "";
  figure("requests", count(requests), requests ? (unread ? `${count(read)} read, ${count(unread)} not read` : "all read") : "on replayed paths");
  figure("injected", count(items.injected || 0), different || "reasoning items", items.injected ? "good" : "");
  figure("missed", count(items.missed || 0), other ? `and ${count(other)} not injected for other reasons` : "", items.missed ? "poor" : "");
  figure("healed", count(t.heals_total.cured || 0), t.heals_total.refused ? `and ${count(t.heals_total.refused)} refused again` : "requests");
  figure("captured", count(t.captured_items_total), t.captured_bytes_total ? `items, ${bytes(t.captured_bytes_total)}` : "reasoning items");
  figure("flight", count(t.in_flight), state.status === "ready" ? "exchanges" : state.status, state.status === "ready" ? "" : "poor");
  const open = Object.entries(t.breakers).flatMap(([operation, states]) =>
    Object.entries(states).filter(([name, n]) => n && name !== "closed").map(([name]) => `${operation} ${plain(name)}`));
  figure("store", state.store, open.join(", ") || (facts.store || "").split(":")[0], state.store === "ok" ? "" : "poor");
  if (state.minutes) { noteMinutes(state.minutes, state.minute); showCharts(); }
  setLink("live", state.status === "ready" ? "" : state.status);
}

function setLink(word, more) {
  const text = (view.paused && word === "live" ? "paused" : word) + (more ? `, ${more}` : "") + (lost ? `, ${count(lost)} not shown` : "");
  $("link").classList.toggle("live", word === "live" && !view.paused);
  if ($("link").textContent !== text) $("link").textContent = text;
}

function showFacts() {
  $("facts").replaceChildren(...[["to", facts.upstream.replace(/^https?:\/\//, "")], ["mode", facts.mode], ["", `v${facts.version}`]].map(([label, value]) => {
    const span = make("span", "", label && `${label} `);
    span.append(make("b", "", value));
    return span;
  }));
  $("command").textContent = `export OPENAI_BASE_URL=${baseUrl()}`;
  $("replayed").textContent = `Reasoning is injected on ${facts.replayed.join(", ")}. Other paths pass through.`;
}
