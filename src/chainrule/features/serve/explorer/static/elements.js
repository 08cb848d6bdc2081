// Elements of the page. Text from models and people becomes text nodes only, never markup.

const LONGEST = 60;
const MARKS = /([·¶→←⍽▪]+)/; // which the records put in place of white space, and where tokens touch
// Characters that are invisible, or that turn the direction of what follows.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** An element with attributes (functions become listeners) and children: elements or text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, String(value));
  }
  made.append(...children.filter(child => child != null && child !== false));
  return made;
}

/** A text whose invisible characters show as their code points, and ￭ as a square that all fonts have. */
export function visible(text) {
  return text.replaceAll("\uffed", "▪").replace(HIDDEN, c => `‹U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

/** A text as markup that stands for it, for files only. */
export function escaped(text) {
  return text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
}

/** A token as the records show it, shortened if it is long. */
export function tokenText(token) {
  const shown = visible(token);
  return shown.length > LONGEST ? `${shown.slice(0, LONGEST - 1)}…` : shown || "(empty)";
}

/** The same as an element, its marks of white space in a light colour. */
export function tokenElement(token) {
  return element("span", {}, ...tokenText(token).split(MARKS).map((part, i) => i % 2 ? element("span", { class: "mark" }, part) : part));
}

/** A table. header: names, or pairs of name and class. Cells: text or elements. kinds: classes of rows. */
export function table(caption, header, rows, className = null, kinds = []) {
  const columns = header.map(column => [column].flat());
  const cells = (row, name) => row.map((cell, i) => element(name, { class: columns[i][1], scope: name === "th" && "col" }, cell));
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    element("table", { class: className }, element("caption", {}, element("span", {}, caption)),
      element("thead", {}, element("tr", {}, ...cells(columns.map(([name]) => name), "th"))),
      element("tbody", {}, ...rows.map((row, i) => element("tr", { class: kinds[i] }, ...cells(row, "td"))))));
}

/** A button with what it says and does; attributes: more of them. */
export function button(text, click, attributes = {}) {
  return element("button", { type: "button", click, ...attributes }, text);
}

/** Saves a file at an address under a name. */
export function download(address, name) {
  element("a", { href: address, download: name }).click();
}

/** A number with so many digits after the point; — if there is none. */
export function figure(value, digits = 4) {
  return value == null || !Number.isFinite(value) ? "—" : value.toFixed(digits).replace("-", "−");
}

/** The same with its sign, which 0 has not. */
export function withSign(value, digits) {
  const text = figure(value, digits);
  return value > 0 && Number(text) > 0 ? `+${text}` : Number(text.replace("−", "-")) === 0 ? figure(0, digits) : text;
}

/** A probability: small ones with an exponent. */
export function probability(value) {
  return value > 0 && value < 0.0001 ? value.toExponential(2) : value.toFixed(4);
}
