// The event stream of this process, and the admin token that it may need.

function take(told) {
  if (told.exchange) {
    waiting.delete(told.exchange.id);
    waiting.set(told.exchange.id, told.exchange);
    if (waiting.size > PAGE) {
      const [oldest] = waiting.keys();
      waiting.delete(oldest);
      forget(oldest); // its end is not shown
    }
    timer = timer || setTimeout(flush, pace);
  } else if (told.state) {
    showState(told.state);
  } else if (told.hello) {
    facts = told.hello;
    minutes.clear();
    isAllHere = false;
    forgetOpen();
    showFacts();
    setLink("live");
  } else if (told.lost) {
    lost += told.lost;
    forgetOpen(); // their ends may be among the lost lines
  }
}

function forgetOpen() {
  for (const [id, { e }] of rows) if (e.open) forget(id);
  tidy();
}

async function follow(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
  }
}

function showLocked(code, message) {
  const wants = code === "bad_admin_token";
  $("locked-title").textContent = wants ? "This page needs the admin token" : "The inspector is disabled here";
  $("locked-why").textContent = wants ? `${token ? "The token is wrong. " : ""}Enter the value of the setting admin_token. It stays in this tab.` : message;
  $("unlock").hidden = !wants;
  setLocked(true);
  setLink("locked");
  if (wants) $("token").focus();
}
function setLocked(isLocked) {
  $("locked").hidden = !isLocked;
  for (const id of ["live", "glance"]) $(id).hidden = isLocked;
  if (isLocked) { $("details").hidden = true; detailed = null; }
}

const later = (ms) => new Promise((go) => setTimeout(go, ms));
const storage = (() => { try { return sessionStorage; } catch { return {}; } })(); // the browser may forbid it
let token = storage.admin_token || "";
const authorization = () => token ? { Authorization: `Bearer ${encodeURI(token) === token ? token : "?"}` } : {};
const unlocking = () => new Promise((go) => {
  $("unlock").onsubmit = (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    storage.admin_token = token;
    $("token").value = "";
    go();
  };
});

readAddress();
render();
showCharts();
(async () => {
  for (let pause = 500; ; pause = Math.min(8000, pause * 2)) {
    try {
      const answer = await fetch("inspector/events", { headers: authorization(), cache: "no-store", credentials: "omit" });
      if (answer.ok) {
        pause = 500;
        setLocked(false);
        await follow(answer.body);
      } else {
        const { error } = await answer.json();
        if (error.code === "too_many_watchers") setLink(error.message);
        else {
          showLocked(error.code, error.message);
          if (answer.status === 401) { await unlocking(); continue; }
        }
        await later(5000);
        continue;
      }
    } catch { /* the stream has ended, or the proxy is not reachable */ }
    setLink("not reachable, trying again");
    await later(pause);
  }
})();
