// One head's attention as a map: a row for each token that looks, a column for each token that it looks at.

import { ofWeight, scale } from "../colours.js";
import { element, escaped, tokenText } from "../elements.js";

const MOST_LABELS = 40; // tokens that are named beside the map
const LETTER = 7.5; // pixels

/** The colours of weights from 0 to 1, as pixels. isLight: in those of light mode. */
export function pixelColours(isLight) {
  const bytes = new Uint8Array(4 * 1025).fill(255), colour = scale(isLight);
  for (let i = 0; i <= 1024; i++) bytes.set(colour(ofWeight(i / 1024)), 4 * i);
  return new Uint32Array(bytes.buffer);
}

/** A canvas with a pixel for each weight, 0 to 1. colours: as pixelColours gives them. */
export function heatMap(weights, width, height, colours) {
  const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = colours[Math.round(1024 * Math.min(1, Math.max(0, weights[i])))];
  const canvas = element("canvas", { width, height });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** The beginnings of tokens, for labels of drawings. */
export const names = tokens => tokens.map(token => Array.from(tokenText(token)).slice(0, 16).join(""));

/** The room in pixels that labels of tokens take. */
export const roomOf = tokens => 12 + LETTER * Math.max(...names(tokens).map(name => Array.from(name).length));

/** A map as SVG, with the tokens beside it unless there are many, and where its rows are. isLight: in colours for files. */
export function mapOf({ weights, rows, columns }, isLight) {
  const [height, width] = [rows.length, columns.length], longest = Math.max(height, width), isNamed = longest <= MOST_LABELS;
  const cell = Math.max(1, Math.min(36, Math.floor(512 / longest)));
  const [left, top] = isNamed ? [roomOf(rows), roomOf(columns)] : [0, 0], right = left + cell * width, bottom = top + cell * height;
  const ink = isLight ? "#1b1b1f" : getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const label = (name, attributes) => `<text fill="${ink}" ${attributes}>${escaped(name)}</text>`;
  const labels = isNamed ? [
    ...names(rows).map((name, i) => label(name, `x="${left - 6}" y="${top + cell * (i + 0.5) + 4}" text-anchor="end"`)),
    ...names(columns).map((name, i) => label(name, `transform="translate(${left + cell * (i + 0.5) + 4} ${top - 6}) rotate(-90)"`)),
  ] : [];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${right + 1}" height="${bottom + 1}" viewBox="0 0 ${right + 1} ${bottom + 1}" font-size="12" font-family="monospace">` +
    (isLight ? `<rect width="100%" height="100%" fill="#fff"/>` : "") +
    `<image href="${heatMap(weights, width, height, pixelColours(isLight)).toDataURL()}" x="${left}" y="${top}" width="${cell * width}" height="${cell * height}" preserveAspectRatio="none" image-rendering="pixelated"/>` +
    `<rect x="${left}" y="${top}" width="${cell * width}" height="${cell * height}" fill="none" stroke="${ink}" stroke-opacity="0.35"/>` +
    `${labels.join("")}</svg>`;
  return { svg, left, top, cell, width: right + 1, height: bottom + 1 };
}

/** The map, with a frame around a row. point, choose: called with the row that is pointed at, or clicked. */
export function drawMap(shown, chosen, { point, choose, alt }) {
  const { svg, left, top, cell, width, height } = mapOf(shown);
  const picture = element("img", { class: "map", alt, width, height });
  picture.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  const frame = element("div", { class: "frame" }), share = (part, whole) => `${100 * part / whole}%`;
  const mark = row => Object.assign(frame.style, {
    left: share(left, width), top: share(top + cell * row, height), width: share(cell * shown.columns.length, width), height: share(cell, height) });
  const rowAt = event => Math.min(shown.rows.length - 1, Math.max(0, Math.floor((event.offsetY / picture.clientHeight * height - top) / cell)));
  let current = chosen;
  const move = row => {
    if (row === current) return;
    current = row;
    mark(row);
    point(row);
  };
  mark(chosen);
  return element("div", { class: "framed", pointermove: event => event.target === picture && move(rowAt(event)), pointerleave: () => move(chosen),
    click: event => event.target === picture && choose(rowAt(event)) }, picture, frame);
}
