// List of conversations: a line of a table for each one that is shown, the newest first.

const COLUMNS = ["Conversation", "Requests", "Injected", "Missed", "Input tokens", "Cached", "Output tokens", "Last request"];

// What some exchanges add up to.
function sumsOf(all) {
  const of = (part, name) => all.reduce((n, e) => n + (e[part][name] || 0), 0);
  return {
    injected: of("outcomes", "injected"), missed: of("outcomes", "missed"),
    input: of("tokens", "input_tokens"), cached: of("tokens", "cached_tokens"), output: of("tokens", "output_tokens"),
  };
}

// Of each conversation its key, and the text of each column after the first.
function talksOf(shown) {
  const talks = new Map();
  for (const e of shown.reverse().filter(keyOf)) talks.set(keyOf(e), [...talks.get(keyOf(e)) || [], e]);
  return [...talks].map(([key, all]) => {
    const { injected, missed, input, cached, output } = sumsOf(all);
    return [key, count(all.length), count(injected), count(missed), many(input), input ? share(cached, input) : "–", many(output), clock(all[0].at_ms)];
  });
}

let listed = "";
function showList() {
  const isOn = Boolean(view.list) && !view.conversation, talks = isOn ? talksOf(shownNow()) : [];
  $("list").setAttribute("aria-pressed", Boolean(view.list));
  $("talks").hidden = !talks.length;
  const said = JSON.stringify(talks);
  if (said === listed) return;
  listed = said;
  const held = document.activeElement?.closest("#talks tr")?.dataset.key;
  $("talks").tBodies[0].replaceChildren(...talks.map(([key, ...texts]) => {
    const line = make("tr"), name = make("th"), chip = chipOf(key);
    name.scope = "row";
    chip.tabIndex = -1;
    name.append(chip);
    line.dataset.key = key;
    line.append(name, ...texts.map((text) => make("td", "", text)));
    return line;
  }));
  $("talks").querySelector(`[data-key="${held}"] .chip`)?.focus();
}

$("talks").tHead.rows[0].append(...COLUMNS.map((title) => {
  const head = make("th", "", title);
  head.scope = "col";
  return head;
}));
$("list").onclick = () => choose({ list: view.list ? "" : "on", conversation: "", exchange: "" }, true);
