// The page: its views, their fields, and what the address says of both.

import * as attention from "./views/attention.js";
import * as beams from "./views/beams.js";
import * as changes from "./views/changes.js";
import * as chat from "./views/chat.js";
import { drawCommands } from "./commands.js";
import { button, element, tokenText } from "./elements.js";
import * as lens from "./views/lens.js";
import * as next from "./views/next.js";
import * as playground from "./views/playground.js";
import { exampleOf } from "./examples.js";
import { save } from "./save.js";
import { Failure, ask, isBack, setKey } from "./server.js";
import * as surprisal from "./views/surprisal.js";
import * as way from "./views/way.js";

const VIEWS = { next, surprisal, playground, chat, beams, attention, way, lens, changes };
const LONGEST_ADDRESS = 30000; // characters; a longer text is left out of it

const COUNT = { min: 0 }; // of what is set by clicks
// By name: the label, the value at first, and the attributes or choices of the field. Without a label: set by clicks.
const FIELDS = {
  model: ["Model", ""], other: ["Beside it", ""], by: ["Units", "tokens", ["tokens", "words", "characters", "bytes"]],
  unit: ["Suggest", "tokens", ["tokens", "words"]],
  given: ["Source", ""], picture: ["Picture", "", { type: "file", accept: "image/png,image/jpeg" }], text: ["Text", ""],
  instead: ["Another text", ""], replaced: ["What is switched off becomes", "zero", ["zero", "mean", "patch"]], off: [null, ""],
  temperature: ["Temperature", "1", { type: "range", max: 2, step: 0.05 }],
  top_k: ["Top-k (0: all)", "0", { type: "range", max: 100 }],
  top_p: ["Top-p", "1", { type: "range", min: 0.05, max: 1, step: 0.01 }],
  min_p: ["Min-p", "0", { type: "range", max: 0.5, step: 0.01 }],
  max_tokens: ["Tokens at most", "40", { type: "number", min: 1, max: 1000 }],
  n: ["Texts", "2", { type: "number", min: 1, max: 10 }], seed: ["Seed", "1", { type: "number", min: 0 }],
  scale: ["Strongest colour at, bits", "32", { type: "range", min: 8, max: 64, step: 4 }],
  difference: ["Strongest colour at a difference of, bits", "8", { type: "range", min: 2, max: 32, step: 2 }],
  size: ["Beam size", "3", { type: "range", min: 1, max: 10 }],
  length: ["Tokens at most", "8", { type: "range", min: 1, max: 30 }],
  view: [null, "next", Object.keys(VIEWS)], why: [null, "0", COUNT], step: [null, "0", COUNT], layer: [null, "", COUNT], head: [null, "", COUNT], row: [null, "", COUNT],
  as: [null, "map", ["map", "lines"]], special: [null, "kept", ["kept", "out"]], kind: [null, "", Object.keys(attention.KINDS)], without: [null, "false", ["false", "true"]],
  messages: [null, "[]"],
};

const DRAWN = ["scale", "difference"]; // fields that change only how a record is drawn
const OF_MODEL = ["layer", "head", "row", "kind", "off"]; // that another model may not have
const SETTINGS = ["temperature", "top_k", "top_p", "min_p"];

const place = id => document.getElementById(id);
const state = Object.fromEntries(Object.entries(FIELDS).map(([name, [, value]]) => [name, value]));
// about: what the server says of the model that is shown; record: what is shown of it.
let models = [], about = {}, record = null, running = null;
const TEXTS = ["text", "given"], own = new Set(); // own: those that the visitor wrote, or the address has; others are examples

/** Reads the state from the address; what is wrong there, as sentences: in its place stands what is there without it. */
function readAddress() {
  for (const [name, [, value]] of Object.entries(FIELDS)) if (name !== "picture") state[name] = value;
  state.model = models[0];
  own.clear();
  const wrong = [];
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const expected = expectedOf(name, value);
    if (expected) wrong.push(`The address has ${tokenText(name)} ${tokenText(value)}; expected ${expected}.`);
    else {
      state[name] = value;
      own.add(name);
    }
  }
  return wrong;
}

/** What the address should have had in place of a value; null if that is good. */
function expectedOf(name, value) {
  if (!Object.hasOwn(FIELDS, name) || name === "picture") return "a field of this page";
  const [, first, kind] = FIELDS[name], choices = name === "model" ? models : name === "other" ? othersOf("next") : kind;
  if (value === first && name !== "model") return null;
  if (Array.isArray(choices)) return choices.includes(value) ? null : choices.map(tokenText).join(", ");
  if (name === "messages") return chat.messagesOf({ messages: value }).length || value === first ? null : "a conversation";
  if (!kind) return null;
  const { min = 0, max = kind.type === "range" ? 100 : Number.MAX_SAFE_INTEGER, step = 1 } = kind, number = value.trim() === "" ? NaN : Number(value);
  const isGood = number >= min && number <= max && (step % 1 !== 0 || Number.isInteger(number));
  return isGood ? null : `a ${step % 1 ? "" : "whole "}number${max < Number.MAX_SAFE_INTEGER ? ` from ${min} to ${max}` : ` of ${min} or more`}`;
}

/** The choices of what stands beside the model, in a view. */
function othersOf(view) {
  return view === "next" && models.length > 2 ? [...models, next.ALL] : models;
}

function writeAddress() {
  const isKept = ([name, value]) => name !== "picture" && (TEXTS.includes(name) ? own.has(name) : value !== FIELDS[name][1]) && value.length < LONGEST_ADDRESS;
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(state).filter(isKept))}`);
}

/** Changes the state; asks the server again unless the record at hand has all that is shown. */
function change(values, asks = true) {
  place("wrong").replaceChildren();
  if ("model" in values && values.model !== state.model) for (const name of OF_MODEL) state[name] = FIELDS[name][1];
  Object.assign(state, values);
  if (!othersOf(state.view).includes(state.other)) state.other = state.other && models.find(name => name !== state.model);
  TEXTS.filter(name => name in values).forEach(name => "messages" in values ? own.delete(name) : own.add(name));
  if (!("step" in values) && asks) state.step = "0";
  if ("view" in values) {
    record = null;
    place("result").replaceChildren();
  }
  if (["view", "unit", "other"].some(name => name in values)) drawFields();
  else fillFields();
  writeAddress();
  place("command-list").replaceChildren(...drawCommands(state, about));
  if (!asks) drawResult();
  else if (!VIEWS[state.view].buttonText || ["view", "model", "messages"].some(name => name in values)) refresh();
}

function drawResult() {
  if (isPressed) { // what is pressed has to be there until it is let go
    waits = true;
    return;
  }
  const controls = () => [...place("result").querySelectorAll("button, select, summary, input, [tabindex]")];
  const focused = controls().indexOf(document.activeElement);
  const cut = record.left_out ? element("p", { class: "note" }, `The text is long: its first ${record.left_out.toLocaleString()} characters are not read.`) : null;
  place("result").replaceChildren(...[cut, ...VIEWS[state.view].draw(record, state, change)].filter(Boolean));
  controls()[focused]?.focus({ preventScroll: true });
}

let isPressed = false, waits = false;
// Buttons alone: the list of a select takes the release for itself.
addEventListener("pointerdown", event => { isPressed = Boolean(event.target.closest?.("#result button")); });
for (const end of ["pointerup", "pointercancel"]) {
  addEventListener(end, () => setTimeout(() => { // after the click
    isPressed = false;
    if (waits && record) drawResult();
    waits = false;
  }));
}

function say(message) {
  place("message").replaceChildren(message);
}

/** Asks the server what the model needs, if it has changed. */
async function describe(signal) {
  const isNew = about.model !== state.model;
  if (isNew) about = { ...await ask("/v1/explore/model", { model: state.model }, signal), models };
  if (!leaveOut() && !isNew) return;
  drawFields();
  place("command-list").replaceChildren(...drawCommands(state, about));
}

/** Leaves out what this page lacks, and says so; whether there was any. */
function leaveOut() {
  const { view } = state, lacking = Object.keys(FIELDS).filter(name => about.lacks?.includes(name) && state[name] !== FIELDS[name][1]);
  for (const name of lacking) state[name] = FIELDS[name][1];
  const said = [...place("wrong").children];
  if (about.lacks?.includes(view)) change({ view: "next" });
  place("wrong").replaceChildren(...said);
  const wrong =[...about.lacks?.includes(view) ? [`This page has no ${VIEWS[view].title} of this model, which needs a server or another model: these are its next words.`] : [],
    ...lacking.map(name => `This page has no field ${name}, which needs a server: it is left out.`)];
  complain(wrong);
  return wrong.length > 0;
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

let isSlow = false; // whether an answer takes so long that the page says so
// A page without a server says how much of its work is done.
document.addEventListener("progress", event => isSlow && say(`Working … ${Math.floor(100 * event.detail)} %`));

/** Says what the address has that is not there. */
function complain(sentences) {
  place("wrong").append(...sentences.map(sentence => element("p", {}, sentence)));
}

/** Asks the server for the view. Only the latest answer is shown: an earlier request is broken off. */
async function refresh() {
  running?.abort();
  const current = running = new AbortController(), view = VIEWS[state.view];
  place("result").classList.add("is-old");
  const slow = setTimeout(() => {
    if (current === running && !place("message").innerText) say("Working …");
    isSlow = true;
  }, 1000);
  isSlow = false;
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
  const choices = name === "model" ? models : name === "other" ? ["", ...othersOf(state.view)] : Array.isArray(kind) ? kind : null;
  const isText = ["text", "given", "instead"].includes(name);
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
  if (about.lacks?.includes(name)) return false;
  if (name === "other") return models.length > 1 && !(about.fills && state.view === "next");
  if (state.view === "surprisal" && (name === "scale" || name === "difference")) return (name === "difference") === (state.other !== "");
  if (name === "given") return about.given === "source";
  if (name === "picture") return about.given === "picture";
  if (about.fills && state.view === "next") return name === "model" || name === "text";
  return state.view !== "next" || !SETTINGS.includes(name) || (state.unit !== "words" && !next.others(state, about).length);
}

/** The fields of the view, and its buttons. */
function drawFields() {
  const view = VIEWS[state.view], focused = document.activeElement?.name;
  const act = () => view.press ? change(view.press(state, record)) : refresh();
  place("controls").replaceChildren(element("div", { class: "fields" }, ...view.fields.filter(applies).map(drawField)), element("p", {},
    view.buttonText ? button(view.buttonText, act) : "", " ", button("Save as one HTML file", () => save(`${state.view}.html`, headingOf(state), settingsOf(state)))));
  place("views").replaceChildren(...Object.entries(VIEWS).filter(([name]) => !about.lacks?.includes(name)).map(([name, { title }]) => button(title,
    () => change({ view: name }), { "aria-current": name === state.view ? "page" : null })));
  fillFields();
  if (focused) place("controls").querySelector(`[name=${focused}]`)?.focus();
}

/** The view and what it shows. */
function headingOf({ view, model, other }) {
  return `${VIEWS[view].title} · ${[model, ...other && VIEWS[view].fields.includes("other") ? [other] : []].join(", ")}`;
}

/** The fields of the view, by their labels, and what is switched off. */
function settingsOf(state) {
  const named = VIEWS[state.view].fields.filter(name => name !== "picture" && applies(name) && state[name] !== "").map(name => [FIELDS[name][0], state[name]]);
  return state.view === "changes" && state.off ? [...named, ["Switched off", changes.offOf(state).map(changes.nameOf).join("; ")]] : named;
}

function fillFields() {
  document.title = headingOf(state);
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
  goToAddress();
}

function goToAddress() {
  const wrong = readAddress();
  change({ view: state.view });
  complain(wrong);
}

addEventListener("hashchange", goToAddress);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => record && drawResult());
start();
