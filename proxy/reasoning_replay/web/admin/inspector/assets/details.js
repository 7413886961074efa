// Details: everything that is known of one exchange, in a pane next to the rows.

let opener = "";
const exchangeOf = () => [...rows.values()].map((row) => row.e).find((e) => e.request_id === view.exchange)
  || (detailed?.request_id === view.exchange ? detailed : null); // one that gave way to newer ones stays in the pane

function openDetails(id) {
  const row = rows.get(id);
  if (!row) return;
  opener = id;
  choose({ exchange: row.e.request_id });
  $("close").focus({ preventScroll: true });
}

function closeDetails() {
  choose({ exchange: "" });
  document.querySelector(view.conversation ? `#turns > [data-id="${opener}"] .when` : `#rows > [data-id="${opener}"] .when`)?.focus();
}
$("close").onclick = closeDetails;
$("close").before(copyButton("Copy link", () => `${location.href.split("#")[0]}#exchange=${view.exchange}`));

function showDetails() {
  const e = view.exchange ? exchangeOf() : null;
  $("details").hidden = !e;
  document.body.classList.toggle("has-details", Boolean(e));
  if (e === detailed) return;
  if (e?.id !== detailed?.id) $("details").scrollTop = 0;
  detailed = e;
  if (!e) return;
  opener = e.id;
  $("details-title").textContent = `${clock(e.at_ms)} · ${ended(e)}`;
  const isHeld = $("details-body").contains(document.activeElement);
  $("details-body").replaceChildren(...sectionsOf(e));
  if (isHeld) $("close").focus();
}

function sectionsOf(e) {
  const key = keyOf(e), t = e.tokens;
  const upstreamError = [["Upstream's code", copied(e.error_code)], ["Upstream's type", copied(e.error_type)]];
  return [
    section("Ids", [
      ["Request id", copied(e.request_id)], ["Upstream's request id", copied(e.upstream_request_id)], ["Trace id", copied(e.trace_id)],
    ]),
    section("Exchange", [
      ["Started", new Date(e.at_ms).toISOString()],
      ["Upstream", e.upstream],
      ["Method and route", [e.method, e.route].filter(Boolean).join(" ")],
      [e.wrong_path ? "Wrong path" : "Passed through", pathOf(e)],
      ["Model", e.model],
      ["Status", e.open ? "in flight" : String(e.status || "none")],
      ["Outcome", e.open ? "" : ENDED[e.outcome] || e.outcome],
      ...e.healed ? [] : upstreamError,
      ["Cause", [e.error, e.error_detail].filter(Boolean).join(": ")],
    ]),
    section("Reasoning", [
      ["Request", ASKED[e.asked] || (e.asked && !sum(e.outcomes) && "No reasoning was missing.")],
      ["Injected", e.outcomes.injected && `${count(e.outcomes.injected)}${e.injected_bytes ? `, ${bytes(e.injected_bytes)}` : ""}${facts.mode === "shadow" ? ", in mode on" : ""}`],
      ["Sent by the client", e.outcomes.present && count(e.outcomes.present)],
      ["Lacking", e.outcomes.lacking && count(e.outcomes.lacking)],
      ...reasons(e).map(([what, n]) => [capital(plain(what)), `${count(n)}: ${WHY[what]}`]),
      ["Captured", e.captured && `${e.captured_items ? `${several(e.captured_items, "item")}, ` : ""}${CAPTURED[e.captured] || e.captured}`],
    ]),
    section("Repairs before the first attempt", Object.entries(e.repairs).map(([what, n]) => [what, `${count(n)}: ${REPAIRS[what] || what}`])),
    section("Healing", e.healed ? [["First attempt", `refused: ${plain(e.healed)}`], ...upstreamError] : []),
    section("Sizes", [
      ["Request", e.received_bytes && bytes(e.received_bytes)],
      ["Sent upstream", e.upstream_bytes && bytes(e.upstream_bytes)],
      ["Response", e.sent_bytes && bytes(e.sent_bytes)],
    ]),
    section("Tokens", [
      ["Input", t.input_tokens && count(t.input_tokens)],
      ["Cache, by upstream", cacheOf(e)],
      ["of which cached", t.cached_tokens !== undefined && t.cached_tokens !== null && t.input_tokens && `${count(t.cached_tokens)} (${share(t.cached_tokens, t.input_tokens)})`],
      ["of which written to the cache", t.cache_write_tokens && `${count(t.cache_write_tokens)}${t.cache_write_long_tokens ? `, ${count(t.cache_write_long_tokens)} with the long lifetime` : ""}`],
      ["Output", t.output_tokens && count(t.output_tokens)],
      ["of which reasoning", t.reasoning_tokens && count(t.reasoning_tokens)],
    ]),
    section("Time", timesOf(e)),
    section("Conversation", key ? [
      ["Name", chipOf(key)], ["Id", copied(key)], ["Turn", copied(e.turn)], ["Continues", copied(e.parent)], ["", deletion(key)],
    ] : []),
    itemsOf(e),
    copyButton("Copy all of it as JSON", () => JSON.stringify(e)),
    make("p", "soft", "Content is never shown: the operators of a proxy need not read what its users write. To see texts, arguments and reasoning, log them in the client."),
  ].filter(Boolean);
}

function section(title, pairs) {
  const list = make("dl");
  for (const [label, value] of pairs) {
    if (!value) continue;
    const pair = make("div"), dd = make("dd");
    dd.append(value);
    pair.append(make("dt", "", label), dd);
    list.append(pair);
  }
  if (!list.childNodes.length) return null;
  const all = make("section");
  all.append(make("h3", "", title), list);
  return all;
}

function timesOf(e) {
  const rest = e.total_ms === null ? 0 : Math.max(0, e.total_ms - added(e) - e.first_byte_ms);
  const parts = [["before", "Proxy, before", e.before_ms], ["first", "Upstream, first byte", e.first_byte_ms], ["rest", "Upstream and client, the rest", rest], ["between", "Proxy, between", e.between_ms], ["after", "Proxy, after", e.after_ms]];
  const all = parts.reduce((n, part) => n + part[2], 0);
  if (!all) return [];
  const bar = make("div", "times");
  bar.setAttribute("aria-hidden", "true");
  for (const [kind, , ms] of parts) {
    if (!ms) continue;
    const part = make("i", `t-${kind}`);
    part.style.flexGrow = ms / all;
    bar.append(part);
  }
  const key = (kind, text) => {
    const span = make("span");
    span.append(make("i", `swatch t-${kind}`), text);
    return span;
  };
  return [
    ["In all", e.total_ms === null ? "" : lasting(e.total_ms)], ["", bar],
    ...parts.filter((part) => part[2] || part[0] === "before").map(([kind, label, ms]) => [label, key(kind, lasting(ms))]),
  ];
}

function copyButton(label, text) {
  const button = make("button", "button copy", label);
  button.onclick = async () => {
    button.textContent = await copy(text()) ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = label; }, 1200);
  };
  return button;
}

// The clipboard needs HTTPS or this machine; elsewhere the older command works.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { /* not permitted here */ }
  const area = make("textarea");
  area.value = text;
  $("details").append(area);
  const held = document.activeElement;
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  held?.focus();
  return isDone;
}

function copied(text) {
  if (!text) return "";
  const all = make("span", "id"), button = copyButton("Copy", () => text);
  button.setAttribute("aria-label", `Copy ${text}`);
  all.append(make("code", "", text), button);
  return all;
}

function itemsOf(e) {
  if (!e.items) return null;
  const list = make("ol", "items");
  const line = (block, text, id, size) => {
    const item = make("li");
    block.setAttribute("aria-hidden", "true");
    item.append(block, make("span", "", text), ...(id ? [copied(id)] : []), ...(size ? [make("span", "soft", bytes(size))] : []));
    list.append(item);
  };
  for (const { item, n: left, number, notes } of entriesOf(e)) {
    if (!item) list.append(make("li", "soft", `⋯ ${several(left, "item")} left out`));
    for (const [, what, n, size, ids] of notes) {
      if (what === "injected") {
        const named = ids.filter(Boolean);
        for (const id of named) line(make("i", "b plus", "+"), injected(), id, named.length === 1 && size);
        if (named.length < n) line(make("i", "b plus", "+"), `${several(n - named.length, "reasoning item")} ${injected()}, without an id`);
      } else if (isMark([0, what])) line(make("i", "b hole", "?"), `${several(n, "reasoning item")} ${plain(what)}`);
    }
    if (!item) continue;
    const letter = item[0] in KINDS ? item[0] : "o";
    line(make("i", `b ${letter}`, KINDS[letter][0]), `${count(number + 1)} ${item[1]}`, item[2], item[3]);
  }
  const all = make("section");
  all.append(make("h3", "", `Items of the request (${count(e.items)})`), list);
  return all;
}

function deletion(key) {
  const box = make("div", "deletion"), name = nameOf(key);
  const start = () => {
    const ask = make("button", "button", "Delete this conversation…");
    ask.onclick = confirm;
    box.replaceChildren(ask);
    return ask;
  };
  const confirm = () => {
    const yes = make("button", "button danger", `Delete ${name}`), no = make("button", "button", "Cancel");
    no.onclick = () => start().focus();
    yes.onclick = async () => {
      yes.disabled = true;
      const said = await deleted(key);
      box.replaceChildren(make("p", "", said));
      box.firstChild.setAttribute("role", "status");
    };
    const why = make("p", "", `All stored reasoning of ${name} is deleted. Its next request then has nothing to inject. This cannot be undone.`);
    box.replaceChildren(why, yes, no);
    no.focus();
  };
  start();
  return box;
}

async function deleted(key) {
  try {
    const answer = await fetch(`conversations/${key}`, { method: "DELETE", headers: authorization(), credentials: "omit" });
    if (answer.ok) return "Deleted.";
    return (await answer.json()).error.message;
  } catch {
    return "Not deleted: the proxy is not reachable.";
  }
}
