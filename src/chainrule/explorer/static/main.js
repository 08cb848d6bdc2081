// The page: its views, their fields, and what the address says of both.

import * as attention from "./views/attention.js";
import * as beams from "./views/beams.js";
import * as chat from "./views/chat.js";
import { drawCommands } from "./commands.js";
import { button, element } from "./elements.js";
import * as next from "./views/next.js";
import * as playground from "./views/playground.js";
import { exampleOf } from "./examples.js";
import { save } from "./save.js";
import { Failure, ask, isBack, setKey } from "./server.js";
import * as surprisal from "./views/surprisal.js";

const VIEWS = { next, surprisal, playground, chat, beams, attention };
const LONGEST_ADDRESS = 30000; // characters; a longer text is left out of it

// By name: the label, the value at first, and the attributes or choices of the field. Without a label: set by clicks.
const FIELDS = {
  model: ["Model", ""], other: ["Beside it", ""], by: ["Units", "tokens", ["tokens", "words", "characters", "bytes"]],
  unit: ["Suggest", "tokens", ["tokens", "words"]],
  given: ["Source", ""], picture: ["Picture", "", { type: "file", accept: "image/png,image/jpeg" }], text: ["Text", ""],
  temperature: ["Temperature", "1", { type: "range", max: 2, step: 0.05 }],
  top_k: ["Top-k (0: all)", "0", { type: "range", max: 100 }],
  top_p: ["Top-p", "1", { type: "range", min: 0.05, max: 1, step: 0.01 }],
  min_p: ["Min-p", "0", { type: "range", max: 0.5, step: 0.01 }],
  max_tokens: ["Tokens at most", "40", { type: "number", min: 1, max: 1000 }],
  n: ["Texts", "2", { type: "number", min: 1, max: 10 }], seed: ["Seed", "1", { type: "number", min: 0 }],
  scale: ["Strongest colour at, bits", "32", { type: "range", min: 8, max: 64, step: 4 }],
  size: ["Beam size", "3", { type: "range", min: 1, max: 10 }],
  length: ["Tokens at most", "8", { type: "range", min: 1, max: 30 }],
  view: [null, "next"], why: [null, "0"], step: [null, "0"],
  layer: [null, ""], head: [null, ""], row: [null, ""], as: [null, "map"], special: [null, "kept"], kind: [null, ""], without: [null, "false"], messages: [null, "[]"],
};

const DRAWN = ["scale"]; // fields that change only how a record is drawn
const SETTINGS = ["temperature", "top_k", "top_p", "min_p"];

const place = id => document.getElementById(id);
const state = Object.fromEntries(Object.entries(FIELDS).map(([name, [, value]]) => [name, value]));
// about: what the server says of the model that is shown; record: what is shown of it.
let models = [], about = {}, record = null, running = null;
const TEXTS = ["text", "given"], own = new Set(); // own: those that the visitor wrote, or the address has; others are examples

/** Reads the state from the address. */
function readAddress() {
  for (const [name, [, value]] of Object.entries(FIELDS)) if (name !== "picture") state[name] = value;
  own.clear();
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (Object.hasOwn(FIELDS, name)) {
    state[name] = value;
    own.add(name);
  }
  if (!Object.hasOwn(VIEWS, state.view)) state.view = "next";
  if (!models.includes(state.model)) state.model = models[0];
  if (!models.includes(state.other)) state.other = "";
}

function writeAddress() {
  const isKept = ([name, value]) => name !== "picture" && (TEXTS.includes(name) ? own.has(name) : value !== FIELDS[name][1]) && value.length < LONGEST_ADDRESS;
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(state).filter(isKept))}`);
}

/** Changes the state; asks the server again unless the record at hand has all that is shown. */
function change(values, asks = true) {
  Object.assign(state, values);
  TEXTS.filter(name => name in values).forEach(name => "messages" in values ? own.delete(name) : own.add(name));
  if (!("step" in values) && asks) state.step = "0";
  if ("view" in values) {
    record = null;
    place("result").replaceChildren();
  }
  if ("view" in values || "unit" in values) drawFields();
  else fillFields();
  writeAddress();
  place("command-list").replaceChildren(...drawCommands(state, about));
  if (!asks) drawResult();
  else if (!VIEWS[state.view].buttonText || ["view", "model", "messages"].some(name => name in values)) refresh();
}

function drawResult() {
  const controls = () => [...place("result").querySelectorAll("button, select, summary, [tabindex]")];
  const focused = controls().indexOf(document.activeElement);
  const cut = record.left_out ? element("p", { class: "note" }, `The text is long: its first ${record.left_out.toLocaleString()} characters are not read.`) : null;
  place("result").replaceChildren(...[cut, ...VIEWS[state.view].draw(record, state, change)].filter(Boolean));
  controls()[focused]?.focus({ preventScroll: true });
}

function say(message) {
  place("message").replaceChildren(message);
}

/** Asks the server what the model needs, if it has changed. */
async function describe(signal) {
  if (about.model === state.model) return;
  about = await ask("/v1/explore/model", { model: state.model }, signal);
  drawFields();
  place("command-list").replaceChildren(...drawCommands(state, about));
}

/** Puts the example of the model into fields that nobody wrote in. */
function showExample() {
  const example = exampleOf(state.view, about), names = TEXTS.filter(name => !own.has(name) && state[name] !== (example[name] ?? ""));
  if (state.view === "chat" && state.messages !== "[]") return; // a conversation goes on with an empty field
  if (!names.length) return;
  for (const name of names) state[name] = example[name] ?? "";
  fillFields();
  place("command-list").replaceChildren(...drawCommands(state, about));
}

/** Asks the server for the view. Only the latest answer is shown: an earlier request is broken off. */
async function refresh() {
  running?.abort();
  const current = running = new AbortController(), view = VIEWS[state.view];
  place("result").classList.add("is-old");
  const slow = setTimeout(() => current === running && !place("message").innerText && say("Working …"), 1000);
  try {
    await describe(current.signal);
    showExample();
    let message = "";
    const show = loaded => {
      if (current !== running) return;
      if (loaded.fingerprint && loaded.fingerprint !== about.fingerprint) {
        message = `The files of ${state.model} have changed; this is the new model.`;
        about.fingerprint = loaded.fingerprint;
      }
      record = loaded;
      drawResult();
    };
    show(await view.load(state, current.signal, show, about));
    if (current === running) say(message);
  } catch (error) {
    if (current !== running || error.name === "AbortError") return;
    if (!(error instanceof Failure)) throw error;
    record = null;
    place("result").replaceChildren();
    await recover(error, refresh, () => current === running);
  } finally {
    clearTimeout(slow);
    if (current === running) place("result").classList.remove("is-old");
  }
}

/** Says what went wrong; goes on with a key, or when the server is back, if that is still wanted. */
async function recover(error, again, isWanted = () => true) {
  say(error.message);
  if (error.isLost) {
    await isBack();
    about = {};
    if (isWanted()) await again();
  } else if (error.needsKey) {
    const field = element("input", { type: "password", autocomplete: "off", "aria-label": "the server's key" });
    say(element("span", {}, "The server wants its key. It stays on this page until you leave it. ", field, " ",
      button("Use it", () => { setKey(field.value); again(); })));
  }
}

/** The bytes of a chosen file in base64. */
async function readFile(file) {
  return file ? new Promise(resolve => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result.replace(/^.*,/, "")));
    reader.readAsDataURL(file);
  }) : "";
}

function drawField(name) {
  const [label, , kind] = FIELDS[name];
  const listen = { name, input: async event => change({ [name]: kind?.type === "file" ? await readFile(event.target.files[0]) : event.target.value, why: "0" }, !record || !DRAWN.includes(name)) };
  const choices = name === "model" ? models : name === "other" ? ["", ...models] : Array.isArray(kind) ? kind : null;
  const isText = name === "text" || name === "given";
  const placeholder = name === "text" && (about.fills ? "a text with [MASK] where words are missing" : about.given ? "what has been written so far" : null);
  const select = event => own.has(name) || event.target.select(); // what is typed first takes the place of an example
  const field = choices ? element("select", listen, ...choices.map(choice => element("option", { value: choice }, choice || "(none)"))) :
    isText ? element("textarea", { ...listen, focus: select, spellcheck: "false", rows: name === "text" ? 3 : 2, dir: "auto", placeholder }) :
      element("input", { ...listen, ...kind });
  const value = kind?.type === "range" ? element("span", { "data-of": name }) : null;
  return element("label", { class: isText ? "wide-field" : null }, element("span", {}, label, value && " ", value), field);
}

/** Whether a view's field means something now. */
function applies(name) {
  if (name === "other") return models.length > 1;
  if (name === "given") return about.given === "source";
  if (name === "picture") return about.given === "picture";
  if (about.fills && state.view === "next") return name === "model" || name === "text";
  return state.view !== "next" || state.unit !== "words" || !SETTINGS.includes(name);
}

/** The fields of the view, and its buttons. */
function drawFields() {
  const view = VIEWS[state.view], focused = document.activeElement?.name;
  const act = () => view.press ? change(view.press(state, record)) : refresh();
  place("controls").replaceChildren(element("div", { class: "fields" }, ...view.fields.filter(applies).map(drawField)), element("p", {},
    view.buttonText ? button(view.buttonText, act) : "", " ", button("Save as one HTML file", () => save(`${state.view}.html`))));
  place("views").replaceChildren(...Object.entries(VIEWS).map(([name, { title }]) => button(title,
    () => change({ view: name }), { "aria-current": name === state.view ? "page" : null })));
  document.title = `${view.title} · ${models.join(", ")}`;
  fillFields();
  if (focused) place("controls").querySelector(`[name=${focused}]`)?.focus();
}

function fillFields() {
  for (const field of place("controls").querySelectorAll("[name]:not([type=file])")) if (field.value !== state[field.name]) field.value = state[field.name];
  for (const shown of place("controls").querySelectorAll("[data-of]")) shown.textContent = state[shown.dataset.of];
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
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => record && drawResult());
start();
