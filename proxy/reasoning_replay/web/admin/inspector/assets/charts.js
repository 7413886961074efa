// Totals since the start, and charts of the last hour, with a bar for each minute.

const MINUTES = 60, SPANS = [10, 20, 30, MINUTES];
const minutes = new Map(); // minute since the epoch -> its sums
let newest = 0;

const part = (part, all) => all ? 100 * part / all : null;
// Of each chart: its title, the value of a minute, how it is written, the value of the hour, and its parts.
const CHARTS = [
  ["rate", "Requests a minute", (m) => m.requests, (v) => count(v), (h) => count(h.requests / Math.max(1, h.minutes)), (h, most) => `${count(h.requests)} in ${h.span}, at most ${count(most)}`],
  ["back", "Injected share", (m) => part(m.injected, m.injected + m.lacking), (v) => `${Math.floor(v)} %`, (h) => h.injected + h.lacking ? share(h.injected, h.injected + h.lacking) : "–", (h) => `${count(h.injected)} of ${count(h.injected + h.lacking)} items that clients left out`],
  ["cache", "Cache hits", (m) => part(m.cached, m.input), (v) => `${Math.floor(v)} %`, (h) => h.input ? share(h.cached, h.input) : "–", (h) => [h[0] && `${share(h[1], h[0])} if injected`, h[2] && `${share(h[3], h[2])} if lacking`, `${many(h.cached, h.input)} of ${many(h.input)} input tokens`].filter(Boolean).join(", ")],
  ["latency", "Added latency", (m) => m.requests ? m.added_ms / m.requests : null, lasting, (h) => h.requests ? lasting(h.added_ms / h.requests) : "–", (h, most) => `mean; ${lasting(most)} in the slowest minute`],
];
const bars = new Map();

for (const [id, title] of CHARTS) {
  const figure = make("figure"), caption = make("figcaption"), box = make("div", "bars");
  figure.id = `chart-${id}`;
  bars.set(id, Array.from({ length: MINUTES }, (_, i) => {
    const bar = make("button", "minute");
    bar.tabIndex = -1;
    bar.append(make("i"));
    bar.onclick = () => {
      const minute = newest - MINUTES + 1 + i;
      if (minutes.has(minute)) choose({ minute: Number(view.minute) === minute ? "" : String(minute) }, true);
    };
    return bar;
  }));
  box.append(...bars.get(id));
  caption.append(make("span", "", title), make("b"));
  figure.append(caption, box, make("small"));
  $("charts").append(figure);
}
bars.get("rate").at(-1).tabIndex = 0;

function noteMinutes(told, now) {
  for (const [minute, requests, back, lacking, input, cached, added_ms, ...kinds] of told) {
    minutes.set(minute, { requests, injected: back, lacking, input, cached, added_ms, ...kinds });
  }
  for (const minute of minutes.keys()) if (minute <= now - MINUTES) minutes.delete(minute);
  newest = now;
}

function showCharts() {
  const all = [...minutes.values()], first = Math.min(newest, ...minutes.keys());
  const hour = { minutes: newest - first + 1, requests: 0, injected: 0, lacking: 0, input: 0, cached: 0, added_ms: 0, 0: 0, 1: 0, 2: 0, 3: 0 };
  for (const m of all) for (const name of Object.keys(m)) hour[name] += m[name];
  const shown = SPANS.find((span) => span >= hour.minutes) || MINUTES;
  hour.span = shown < MINUTES ? `the last ${shown} minutes` : "the last hour";
  const times = Array.from({ length: MINUTES }, (_, i) => clock((newest - MINUTES + 1 + i) * 60000).slice(0, 5));
  for (const [id, title, valueOf, written, whole, madeOf] of CHARTS) {
    const values = all.map(valueOf).filter((value) => value !== null), most = Math.max(0, ...values);
    const top = id === "back" || id === "cache" ? 100 : most || 1;
    bars.get(id).forEach((bar, i) => {
      const minute = newest - MINUTES + 1 + i, m = minutes.get(minute), value = m ? valueOf(m) : null;
      bar.hidden = i < MINUTES - shown;
      bar.firstChild.style.height = value === null ? "0" : `max(2px, ${100 * value / top}%)`;
      bar.setAttribute("aria-pressed", Number(view.minute) === minute);
      tellBy(bar, [times[i], value === null ? "none" : `${title}: ${written(value)}`]);
    });
    const figure = $(`chart-${id}`), now = whole(hour), small = hour.requests ? madeOf(hour, most) : "no requests in the last hour";
    figure.querySelector("b").textContent = now;
    figure.querySelector("small").textContent = small;
    figure.setAttribute("aria-label", `${title}: ${now}; ${small}`);
  }
}

function figure(id, value, small, kind) {
  $(id).replaceChildren(String(value), make("small", "", small || ""));
  $(id).className = kind || "";
}

function showState(state) {
  const t = state.totals, items = t.items_total, requests = sum(t.requests_total);
  const read = (t.requests_total.planned || 0) + (t.requests_total.stateful || 0), unread = requests - read;
  figure("requests", count(requests), requests ? (unread ? `${count(read)} read, ${count(unread)} not read` : "all read") : "on replayed paths");
  figure("injected", count(items.injected || 0), "reasoning items", items.injected ? "good" : "");
  figure("lacking", count(items.lacking || 0), `of ${count(sum(items))} due`, items.lacking ? "poor" : "");
  figure("healed", count(t.heals_total.cured || 0), t.heals_total.refused ? `${count(t.heals_total.refused)} refused again` : "requests");
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
  $("facts").replaceChildren(...[["to", facts.upstream.replace(/https?:\/\//g, "")], ["mode", facts.mode], ["", `v${facts.version}`]].map(([label, value]) => {
    const span = make("span", "", label && `${label} `);
    span.append(make("b", "", value));
    return span;
  }));
  $("command").textContent = facts.clients.map((place) => `export ${place.replace("=", `=${origin()}`)}`).join("\n");
  $("replayed").textContent = `Reasoning is injected on ${facts.replayed.join(", ")}. Other paths pass through.`;
  $("mine").hidden = !facts.agents.length;
}
