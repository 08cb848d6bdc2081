// The page: its views, their fields, and what the address says of both.

import * as attention from "./attention.js";
import * as beams from "./beams.js";
import { drawCommands } from "./commands.js";
import { element } from "./elements.js";
import * as next from "./next.js";
import * as playground from "./playground.js";
import { save } from "./save.js";
import { Failure, ask, isBack, setKey } from "./server.js";
import * as surprisal from "./surprisal.js";

const VIEWS = { next, surprisal, playground, beams, attention };

// By name: the label, the value at first, and the attributes of the field. Those without a label are set by clicks.
const FIELDS = {
  model: ["Model", ""], other: ["Beside it", ""], by: ["Units", "tokens", ["tokens", "words", "characters"]],
  text: ["Text", ""], target: ["Target, for models of pairs", ""],
  temperature: ["Temperature", "1", { type: "range", min: 0, max: 2, step: 0.05 }],
  top_k: ["Top-k (0: all)", "0", { type: "range", min: 0, max: 100, step: 1 }],
  top_p: ["Top-p", "1", { type: "range", min: 0.05, max: 1, step: 0.01 }],
  min_p: ["Min-p", "0", { type: "range", min: 0, max: 0.5, step: 0.01 }],
  max_tokens: ["Tokens at most", "40", { type: "number", min: 1, max: 1000 }],
  n: ["Texts", "2", { type: "number", min: 1, max: 10 }], seed: ["Seed", "1", { type: "number", min: 0 }],
  size: ["Beam size", "3", { type: "range", min: 1, max: 10, step: 1 }],
  length: ["Tokens at most", "8", { type: "range", min: 1, max: 30, step: 1 }],
  layer: [null, "0"], view: [null, "next"], why: [null, "0"], step: [null, "0"], head: [null, "0"], row: [null, "0"],
};

const place = id => document.getElementById(id);
const state = Object.fromEntries(Object.entries(FIELDS).map(([name, [, value]]) => [name, value]));
let models = [], record = null, running = null;

/** Reads the state from the address. */
function readAddress() {
  for (const [name, [, value]] of Object.entries(FIELDS)) state[name] = value;
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (Object.hasOwn(FIELDS, name)) state[name] = value;
  if (!Object.hasOwn(VIEWS, state.view)) state.view = "next";
  if (!models.includes(state.model)) state.model = models[0];
  if (!models.includes(state.other)) state.other = "";
}

function writeAddress() {
  const changed = Object.entries(state).filter(([name, value]) => value !== FIELDS[name][1]);
  history.replaceState(null, "", `#${new URLSearchParams(changed)}`);
}

/** Changes the state; asks the server again unless the record at hand has all that is shown. */
function change(values, asks = true) {
  Object.assign(state, values);
  if (!("step" in values) && asks) state.step = "0";
  if ("view" in values) drawFields();
  else fillFields();
  writeAddress();
  place("command-list").replaceChildren(...drawCommands(state));
  if (!asks) drawResult();
  else if (!VIEWS[state.view].button || values.view === "playground") refresh();
}

function drawResult() {
  const focused = document.activeElement?.getAttribute("aria-label");
  place("result").replaceChildren(...[VIEWS[state.view].draw(record, state, change)].flat().filter(Boolean));
  if (focused && document.activeElement === document.body) {
    [...place("result").querySelectorAll("[aria-label]")].find(one => one.getAttribute("aria-label") === focused)?.focus();
  }
}

function say(message) {
  place("message").replaceChildren(message);
}

/** Asks the server for the view. Only the latest answer is shown: an earlier request is broken off. */
async function refresh() {
  running?.abort();
  const own = running = new AbortController(), view = VIEWS[state.view];
  place("result").classList.add("is-old");
  try {
    const show = loaded => {
      if (own !== running) return;
      record = loaded;
      drawResult();
    };
    show(await view.load(state, own.signal, show));
    if (own === running) say("");
  } catch (error) {
    if (own !== running || error.name === "AbortError") return;
    if (!(error instanceof Failure)) throw error;
    record = null;
    place("result").replaceChildren();
    await recover(error, refresh);
  } finally {
    if (own === running) place("result").classList.remove("is-old");
  }
}

/** Says what went wrong; goes on with a key, or when the server is back. */
async function recover(error, again) {
  say(error.message);
  if (error.isLost) {
    await isBack();
    await again();
  } else if (error.needsKey) {
    const field = element("input", { type: "password", autocomplete: "off", "aria-label": "the server's key" });
    say(element("span", {}, "The server wants its key. It stays on this page until you leave it. ", field, " ",
      element("button", { type: "button", click: () => { setKey(field.value); again(); } }, "Use it")));
  }
}

function drawField(name) {
  const [label, , kind] = FIELDS[name];
  const listen = { name, input: event => change({ [name]: event.target.value, why: "0" }) };
  const choices = name === "model" ? models : name === "other" ? ["", ...models] : Array.isArray(kind) ? kind : null;
  const field = choices ? element("select", listen, ...choices.map(choice => element("option", { value: choice }, choice || "(none)"))) :
    name === "text" || name === "target" ? element("textarea", { ...listen, spellcheck: "false", rows: name === "text" ? 3 : 1, dir: "auto" }) :
      element("input", { ...listen, ...kind });
  const value = kind?.type === "range" ? element("output", { "data-of": name }) : null;
  return element("label", { class: name === "text" ? "wide-field" : null }, element("span", {}, label, value && " ", value), field);
}

/** The fields of the view, and its buttons. */
function drawFields() {
  const view = VIEWS[state.view], names = view.fields.filter(name => FIELDS[name][0] && (name !== "other" || models.length > 1));
  place("controls").replaceChildren(element("div", { class: "fields" }, ...names.map(drawField)), element("p", {},
    view.button ? element("button", { type: "button", click: refresh }, view.button) : "", " ",
    element("button", { type: "button", click: () => save(`${state.view}.html`) }, "Save as one HTML file")));
  place("views").replaceChildren(...Object.entries(VIEWS).map(([name, { title }]) => element("button", {
    type: "button", "aria-current": name === state.view ? "page" : null, click: () => { record = null; place("result").replaceChildren(); change({ view: name }); },
  }, title)));
  document.title = `${view.title} · ${models.join(", ")}`;
  fillFields();
}

function fillFields() {
  for (const field of place("controls").querySelectorAll("[name]")) if (field.value !== state[field.name]) field.value = state[field.name];
  for (const output of place("controls").querySelectorAll("output")) output.value = state[output.dataset.of];
}

async function start() {
  try {
    models = (await ask("/v1/models")).data.map(model => model.id);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    await recover(error, start);
    return;
  }
  say("");
  readAddress();
  change({ view: state.view });
}

addEventListener("hashchange", () => {
  readAddress();
  change({ view: state.view });
});
start();
