// One head's attention as lines: from each token that looks, on the left, to those that it looks at, on the right.

import { ofWeight, scale } from "../colours.js";
import { element } from "../elements.js";
import { names, roomOf } from "./attention_map.js";

const LINE = 20; // pixels from token to token
const GAP = 220; // pixels that the lines cross
const LEAST = 0.01; // a weight that has a line
const MOST = 80; // tokens whose lines are all drawn at once; of longer texts, those of one

const NAMESPACE = "http://www.w3.org/2000/svg";

function node(name, attributes, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

const css = colour => `rgb(${colour.join(" ")})`;

/** The lines as SVG. chosen: the row whose lines are strong; null for none. isLight: in colours for files. */
export function linesOf({ weights, rows, columns }, chosen, isLight) {
  const [left, right] = [roomOf(rows), roomOf(columns)], width = left + GAP + right, height = LINE * Math.max(rows.length, columns.length) + 8;
  const colour = scale(isLight), y = i => LINE * (i + 0.5) + 4;
  const ink = isLight ? "#1b1b1f" : "currentColor";
  const own = row => {
    const drawn = [];
    for (let j = 0; j < columns.length; j++) {
      const weight = weights[row * columns.length + j];
      if (weight < LEAST) continue;
      const bend = left + GAP / 2;
      drawn.push([weight, node("path", { d: `M${left} ${y(row)}C${bend} ${y(row)} ${bend} ${y(j)} ${left + GAP} ${y(j)}`, fill: "none",
        stroke: css(colour(0.25 + 0.75 * ofWeight(weight))), "stroke-width": (0.75 + 5 * weight).toFixed(2) })]);
    }
    drawn.sort((a, b) => a[0] - b[0]);
    return node("g", { "data-row": row, opacity: chosen === null || row === chosen ? 1 : 0.12 }, ...drawn.map(([, path]) => path));
  };
  const of = rows.length > MOST ? (chosen === null ? [] : [chosen]) : [...rows.keys()].sort((a, b) => (a === chosen) - (b === chosen));
  const label = (name, x, i, anchor, isStrong) => {
    const text = node("text", { x, y: y(i) + 4, "text-anchor": anchor, fill: ink, "font-weight": isStrong ? 700 : 400 });
    text.textContent = name;
    return text;
  };
  return node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-size": 12, "font-family": "monospace" },
    ...isLight ? [node("rect", { width: "100%", height: "100%", fill: "#fff" })] : [],
    ...of.map(own),
    ...names(rows).map((name, i) => label(name, left - 6, i, "end", i === chosen)),
    ...names(columns).map((name, i) => label(name, left + GAP + 6, i, "start", chosen !== null && weights[chosen * columns.length + i] >= 0.1)));
}

/** The lines, all of them, or strong those of a chosen row; pointing at a token leaves its own. point, choose: called with the row that is pointed at, or clicked. */
export function drawLines(shown, chosen, { point, choose, alt }) {
  const holder = element("div", { class: "lines", role: "img", "aria-label": alt });
  let current = null;
  const show = row => {
    current = row;
    holder.replaceChildren(linesOf(shown, row, false));
  };
  const rowAt = event => Math.floor((event.clientY - holder.firstChild.getBoundingClientRect().top - 4) / LINE);
  holder.addEventListener("pointermove", event => {
    const row = rowAt(event);
    if (row === current || row < 0 || row >= shown.rows.length) return;
    show(row);
    point(row);
  });
  holder.addEventListener("pointerleave", () => { show(chosen); if (chosen !== null) point(chosen); });
  holder.addEventListener("click", event => {
    const row = rowAt(event);
    if (row >= 0 && row < shown.rows.length) choose(row);
  });
  show(chosen);
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "The lines" }, holder);
}

/** The lines as a file has them. */
export const savedLines = (shown, chosen) => new XMLSerializer().serializeToString(linesOf(shown, chosen, true));
