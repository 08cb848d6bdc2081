// Remove and replace: a text as it is, and without some heads or layers, or with another word; side by side.

import { ask } from "../server.js";
import { legend, ofBits, paint, scale } from "../colours.js";
import { button, element, figure, probability, table, tokenElement, tokenText, withSign } from "../elements.js";
import { filled, sided } from "../pictures.js";
import { subject } from "./next.js";

export const title = "Remove and replace";
export const fields = ["model", "given", "picture", "text", "instead", "replaced", "scale"];

export const offOf = state => state.off ? state.off.split(",") : [];

export function body(state) {
  return { ...subject(state), instead: state.instead, off: offOf(state), by: state.replaced };
}

export function load(state, signal) {
  return ask("/v1/explore/changes", body(state), signal);
}

export function draw(record, state, change) {
  const { before, after } = record, isSame = !record.off.length && (state.instead === "" || state.instead === state.text);
  const toggled = name => offOf(state).includes(name) ? offOf(state).filter(one => one !== name) : [...offOf(state), name];
  const isOther = state.replaced !== "patch" && state.instead !== "" && state.instead !== state.text;
  const says = [isOther && "the other text", record.off.length > 0 && `without ${record.off.map(nameOf).join("; ")}${state.replaced === "mean" ? " (their mean so far)" : state.replaced === "patch" ? " (as for the other text)" : ""}`].filter(Boolean).join(", ");
  return [
    record.units.length > 0 ? element("details", { open: true }, element("summary", {}, "Heads and layers to switch off"), drawUnits(record, state, change, toggled)) :
      element("p", { class: "note" }, "This model has no heads to switch off; another text can stand beside the first."),
    words(state, change),
    isSame ? element("p", {}, "Nothing is changed yet: switch a head off, or click a word to write another in its place.") : element("p", {}, sums(before, after)),
    element("div", { class: "columns" },
      side("As it is", before, before, state), side(isSame ? "Nothing changed" : `Changed: ${says}`, after, before, state)),
    legendOf(Number(state.scale)),
    nextTable(before, after),
    element("p", { class: "note" }, "—: not among the ten likeliest. A head that is switched off gives zero, its mean over the tokens so far, or (patch) what it gives for the other text."),
  ];
}

export const nameOf = unit => {
  const [layer, part] = unit.split(".");
  return part === undefined ? `layer ${layer}` : /^\d+$/.test(part) ? `layer ${layer}, head ${part}` : `layer ${layer}, ${part}`;
};

/** A button for each head and part, a row for each layer. */
function drawUnits(record, state, change, toggled) {
  const chosen = offOf(state), one = name => button(name.includes(".") ? name.split(".")[1] : "all", () => change({ off: toggled(name).join() }),
    { "aria-pressed": String(chosen.includes(name)), "aria-label": nameOf(name) });
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Heads and layers" }, element("table", { class: "units" },
    element("tbody", {}, ...record.units.map((layer, i) => element("tr", {}, element("th", { scope: "row" }, `layer ${i + 1}`), ...layer.map(name => element("td", {}, one(name))))))),
  chosen.length > 0 && button("Switch all on", () => change({ off: "" })));
}

let editing = null; // the word in whose place another is written: its place among the parts of the text, what is typed, and the field

const partsOf = state => (state.instead || state.text).split(/(\s+)/);

/** The words of the other text; a click opens a field in the place of one. It stays open when an answer comes meanwhile. */
function words(state, change) {
  const holder = element("p", { class: "choices" });
  const draw = () => holder.replaceChildren(element("span", { class: "quiet" }, "Another word in the place of: "),
    ...partsOf(state).map((part, i) => editing?.place === i ? field(part) : part.trim() ? word(part, i) : ""));
  /** Ends the writing, and gives the number of parts that the text has now more. */
  const close = isKept => {
    const { place, value } = editing, parts = partsOf(state), written = parts.map((part, i) => i === place && isKept ? value : part).join("");
    const instead = written === state.text ? "" : written;
    editing = null;
    if (instead !== state.instead) change({ instead });
    return partsOf(state).length - parts.length;
  };
  const open = place => {
    const before = editing?.place, more = editing ? close(true) : 0, own = before < place ? place + more : place;
    editing = { place: own, value: partsOf(state)[own] ?? "", field: null };
    draw();
  };
  // Without mousedown's own effect, the field keeps the focus until the click, which would else meet a page drawn anew.
  const word = (part, i) => button(part, () => open(i), { mousedown: event => event.preventDefault(), "data-place": i, "aria-label": `another word in the place of ${part}` });
  const field = part => {
    const old = editing.field, caret = old ? [old.selectionStart, old.selectionEnd] : [0, editing.value.length];
    const made = editing.field = element("input", { type: "text", "aria-label": `in the place of ${part}`, size: Math.max(4, part.length) });
    const end = isKept => {
      const { place } = editing;
      close(isKept);
      draw();
      holder.querySelector(`[data-place="${place}"]`)?.focus();
    };
    made.value = editing.value;
    made.addEventListener("input", () => { editing.value = made.value; });
    made.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault(); // or it would press the button that gets the focus
      end(event.key === "Enter");
    });
    made.addEventListener("blur", () => {
      if (editing?.field !== made) return; // drawn anew, or closed
      close(true);
      draw();
    });
    queueMicrotask(() => {
      made.focus();
      made.setSelectionRange(...caret);
    });
    return made;
  };
  draw();
  return holder;
}

const bits = logProb => logProb === null ? Infinity : -logProb / Math.LN2;
const total = side => side.tokens.reduce((sum, token) => sum + bits(token.log_prob), 0);

function sums(before, after) {
  const change = total(after) - total(before);
  return `As it is, the text needs ${figure(total(before), 2)} bits; changed, ${figure(total(after), 2)}: ${withSign(change, 2)}. ` +
    `The entropy of the next token is ${figure(before.entropy, 3)} nats, and ${figure(after.entropy, 3)} changed.`;
}

/** A text in the colours of its surprisal, with what each token has more or less than before, if the tokens are as many. */
function side(heading, own, before, state) {
  const full = Number(state.scale), colour = scale(), isAligned = own !== before && own.tokens.length === before.tokens.length;
  return element("section", {}, element("h2", {}, heading), element("p", { class: "text tokens" }, ...own.tokens.map((token, i) => {
    const cost = bits(token.log_prob), gain = isAligned ? cost - bits(before.tokens[i].log_prob) : 0;
    const shown = paint(element("span", { class: "unit", title: `${tokenText(token.shown)}: ${figure(cost, 2)} bits${isAligned ? `, ${withSign(gain, 2)}` : ""}` }, tokenElement(token.shown)), colour(ofBits(full)(cost)));
    return element("span", { class: "stack" }, shown, isAligned ? element("small", {}, Math.abs(gain) < 0.005 ? "=" : withSign(gain, 2)) : "");
  })));
}

function legendOf(full) {
  const colour = scale(), marks = [0, 0.125, 0.25, 0.5, 1].map(share => share * full);
  return legend("Bits: ", marks.map((value, i) => [colour(ofBits(full)(value)), i === marks.length - 1 ? `${value} or more` : String(value)]));
}

/** The likeliest next tokens before and after, in one table. */
function nextTable(before, after) {
  const names = [...new Set([...before.next, ...after.next].map(token => token.shown))], of = (own, name) => own.next.find(token => token.shown === name)?.prob;
  const most = Math.max(...[...before.next, ...after.next].map(token => token.prob), 1e-30);
  const cells = prob => prob === undefined ? ["", "—"] : [filled(prob / most), probability(prob)];
  return table("The likeliest next tokens", ["token", "as it is", "", "changed", "", ["change", "detail"]], names.map(name => {
    const [a, b] = [of(before, name), of(after, name)];
    return [tokenElement(name), ...cells(a), ...cells(b), a !== undefined && b !== undefined ? sided(b - a, most) : ""];
  }), "beside");
}
