// List of conversations or models: a line of a table for each one that is shown, the newest first.

const COLUMNS = ["", "Requests", "Injected", "Lacking", "Input tokens", "Cached", "If injected", "If lacking", "Output tokens", "Last request"];
const LISTS = { list: "on", models: "models" };

function sumsOf(all) {
  const of = (part, name) => all.reduce((n, e) => n + (e[part][name] || 0), 0);
  return {
    injected: of("outcomes", "injected"), lacking: of("outcomes", "lacking"),
    input: of("tokens", "input_tokens"), cached: of("tokens", "cached_tokens"), output: of("tokens", "output_tokens"),
  };
}

// Of each line its key, and the text of each column after the first.
function talksOf(shown, of) {
  const talks = new Map();
  for (const e of shown.reverse().filter(of)) talks.set(of(e), [...talks.get(of(e)) || [], e]);
  return [...talks].map(([key, all]) => {
    const { injected, lacking, input, output } = sumsOf(all);
    const shares = ["", "injected", "lacking"].map((kind) => sumsOf(all.filter((e) => !kind || e.request === kind)))
      .map((sums) => sums.input ? share(sums.cached, sums.input) : "–");
    return [key, count(all.length), count(injected), count(lacking), many(input), ...shares, many(output), clock(all[0].at_ms)];
  });
}

function modelChip(model) {
  const chip = make("button", "chip", model);
  chip.onclick = () => choose({ model, list: "" }, true);
  return chip;
}

let listed = "";
function showList() {
  const isOn = Boolean(view.list) && !view.conversation, isOfModels = view.list === "models";
  const talks = isOn ? talksOf(shownNow(), isOfModels ? (e) => e.model : keyOf) : [];
  for (const [id, value] of Object.entries(LISTS)) $(id).setAttribute("aria-pressed", view.list === value);
  $("talks").hidden = !talks.length;
  const said = view.list + JSON.stringify(talks);
  if (said === listed) return;
  listed = said;
  $("talks").tHead.rows[0].cells[0].textContent = isOfModels ? "Model" : "Conversation";
  const held = document.activeElement?.closest("#talks tr")?.dataset.key;
  $("talks").tBodies[0].replaceChildren(...talks.map(([key, ...texts]) => {
    const line = make("tr"), name = make("th"), chip = isOfModels ? modelChip(key) : chipOf(key);
    name.scope = "row";
    chip.tabIndex = -1;
    name.append(chip);
    line.dataset.key = key;
    line.append(name, ...texts.map((text) => make("td", "", text)));
    return line;
  }));
  $("talks").querySelector(`[data-key="${CSS.escape(held)}"] .chip`)?.focus();
}

$("talks").tHead.rows[0].append(...COLUMNS.map((title) => {
  const head = make("th", "", title);
  head.scope = "col";
  return head;
}));
for (const [id, value] of Object.entries(LISTS)) $(id).onclick = () => choose({ list: view.list === value ? "" : value, conversation: "", exchange: "" }, true);
