// Small pictures of numbers: strips of vectors, maps of gates, bars to either side. Signed numbers have two colours.

import { paint, rgb } from "./colours.js";
import { element, figure } from "./elements.js";

/** float32 numbers, little-endian, from base64. */
export function floats(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

/** A function from a number and the largest one to its colour: orange above 0, blue below, paper at 0. */
export function signed() {
  const styles = getComputedStyle(document.documentElement), colour = name => rgb(styles.getPropertyValue(`--${name}`));
  const [paper, above, below] = [colour("paper"), colour("line-1"), colour("line-0")];
  return (value, most) => {
    const share = Math.min(1, Math.abs(value) / (most || 1)), end = value > 0 ? above : below;
    return paper.map((own, i) => Math.round(own + share * (end[i] - own)));
  };
}

/** Numbers, row by row, as a canvas with a pixel for each. */
export function picture(values, width, height, most, alt) {
  const image = new ImageData(width, height), colour = signed();
  for (let i = 0; i < values.length; i++) image.data.set([...colour(values[i], most), 255], 4 * i);
  const canvas = element("canvas", { width, height, role: "img", "aria-label": alt });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** A vector as a strip, a band for each number. */
export function strip(vector, name) {
  const most = vector.reduce((highest, value) => Math.max(highest, Math.abs(value)), 0);
  const canvas = picture(vector, vector.length, 1, most, `the ${vector.length} numbers of ${name}; the largest is ${figure(most, 3)}`);
  canvas.className = "strip";
  return canvas;
}

/** A bar from the middle to the right, or to the left if below 0. */
export function sided(value, most) {
  const bar = element("div", { class: value < 0 ? "below" : "above" }), share = 50 * Math.min(1, Math.abs(value) / (most || 1));
  Object.assign(bar.style, { left: `${value < 0 ? 50 - share : 50}%`, width: `${share}%` });
  return element("div", { class: "bar sided", "aria-hidden": "true" }, bar);
}

/** A bar of a share, 0 to 1. */
export function filled(share) {
  const bar = element("div", { class: "drawn part-0" });
  Object.assign(bar.style, { left: "0", width: `${100 * share}%` });
  return element("div", { class: "bar", "aria-hidden": "true" }, bar);
}

/** A table with a colour behind each cell. rows: pairs of a name and cells, each [text, colour, hint]. */
export function colouredTable(caption, header, rows, click = null) {
  const cell = ([text, colour, hint], row, column) => {
    const made = element("td", { title: hint, click: click && (() => click(row, column)) }, text);
    return colour ? paint(made, colour) : made;
  };
  return element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    element("table", { class: "coloured" }, element("caption", {}, element("span", {}, caption)),
      element("thead", {}, element("tr", {}, element("th", {}), ...header.map(name => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows.map(([name, cells], row) => element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((one, column) => cell(one, row, column)))))));
}
