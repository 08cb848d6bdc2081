// Attention: where each token looks, by layer and head; of a caption, on the picture.

import { ask } from "../server.js";
import { button, download, element, escaped, figure, table, tokenText } from "../elements.js";
import { subject } from "./next.js";

export const title = "Attention";
export const fields = ["model", "given", "picture", "text"];

const MOST_LABELS = 40; // tokens that are named beside the map

export function body(state) {
  return { ...subject(state), layer: Number(state.layer), without: state.without === "true" };
}

export async function load(state, signal) {
  const record = await ask("/v1/explore/attention", body(state), signal);
  return record.weights ? { ...record, weights: floats(record.weights) } : record;
}

/** float32 numbers, little-endian, from base64. */
function floats(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

export function draw(record, state, change) {
  if (record.kind === "picture") return drawPanels(record);
  const [height, width] = [record.rows.length, record.columns.length];
  const of = head => record.weights.subarray(head * height * width, (head + 1) * height * width);
  const head = Math.min(Number(state.head), record.heads - 1), row = Math.min(Number(state.row), height - 1);
  const chosen = of(head).subarray(row * width, (row + 1) * width);
  const order = Array.from(chosen.keys()).filter(i => chosen[i]).sort((a, b) => chosen[b] - chosen[a]).slice(0, 20);
  const pressed = is => ({ "aria-pressed": String(is) });
  const layers = record.layers.map((name, i) => button(name, () => change({ layer: String(i), head: "0" }), pressed(i === record.layer)));
  const heads = Array.from({ length: record.heads }, (_, i) => element("button", {
    type: "button", ...pressed(i === head), click: () => change({ head: String(i) }, false),
  }, heatMap(of(i), width, height), `head ${i + 1}${record.without ? `: ${record.without[i].toFixed(2)}` : ""}`));
  const name = `attention-${record.layer + 1}-${head + 1}`, what = `${record.layers[record.layer]}, head ${head + 1}`;
  const { svg, top, cell, size } = labelled(heatMap(of(head), width, height).toDataURL(), record, row);
  const plain = address(svg.replace(/<rect .*?>/, ""));
  const large = element("img", { class: "map", alt: `The weights of ${what}; the list has those of one token.` });
  large.src = address(svg);
  large.addEventListener("click", event => {
    const clicked = Math.floor((event.offsetY / large.clientHeight * size - top) / cell);
    if (clicked >= 0 && clicked < height) change({ row: String(clicked) }, false);
  });
  const rows = element("select", { change: event => change({ row: event.target.value }, false) },
    ...record.rows.map((token, i) => element("option", { value: i, selected: i === row }, `${i + 1}. ${tokenText(token)}`)));
  return [
    element("div", { class: "choices" }, ...layers),
    element("div", { class: "heads" }, ...heads),
    record.removable ? element("p", { class: "note" }, button("What is lost without each head?", () => change({ without: String(!record.without) }), pressed(Boolean(record.without))),
      record.without ? " The change in log P of the text, in nats." : "") : "",
    element("div", { class: "columns" },
      element("div", {}, element("h2", {}, what), large,
        element("p", { class: "note" }, "Each row: where a token looks. The darker, the more weight. Click a row."),
        element("p", {}, button("Save as PNG", () => savePng(plain, `${name}.png`)), " ", button("Save as SVG", () => download(plain, `${name}.svg`)))),
      element("div", {}, element("h2", {}, `Where “${tokenText(record.rows[row])}” looks`), element("p", {}, element("label", {}, "Token that looks ", rows)),
        table("The tokens with the most weight", ["token", "weight"],
          order.map(i => [`${i + 1}. ${tokenText(record.columns[i])}`, figure(chosen[i])])))),
  ];
}

/** The colours of weights from 0 to 1, as pixels: white to dark blue. */
const COLOURS = Uint32Array.from({ length: 1025 }, (_, i) => {
  const share = (i / 1024) ** 0.7; // makes small weights visible
  return new Uint32Array(Uint8Array.of(255 - 247 * share, 255 - 207 * share, 255 - 148 * share, 255).buffer)[0];
});

/** A canvas with a pixel for each weight. */
function heatMap(weights, width, height) {
  const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = COLOURS[Math.round(1024 * Math.min(1, Math.max(0, weights[i])))];
  const canvas = element("canvas", { width, height });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const address = svg => `data:image/svg+xml,${encodeURIComponent(svg)}`;

/** The map as an SVG, with the tokens beside it unless there are many, and a frame around a row. */
function labelled(map, { rows, columns }, row) {
  const longest = Math.max(rows.length, columns.length), isNamed = longest <= MOST_LABELS;
  const cell = Math.max(1, Math.min(36, Math.floor(512 / longest)));
  const names = tokens => tokens.map(token => Array.from(tokenText(token)).slice(0, 16).join(""));
  const room = tokens => isNamed ? 12 + 7.5 * Math.max(...names(tokens).map(name => Array.from(name).length)) : 0;
  const [left, top] = [room(rows), room(columns)], width = left + cell * columns.length, size = top + cell * rows.length;
  const label = (name, attributes) => `<text ${attributes}>${escaped(name)}</text>`;
  const labels = isNamed ? [
    ...names(rows).map((name, i) => label(name, `x="${left - 6}" y="${top + cell * (i + 0.5) + 4}" text-anchor="end"`)),
    ...names(columns).map((name, i) => label(name, `transform="translate(${left + cell * (i + 0.5) + 4} ${top - 6}) rotate(-90)"`)),
  ] : [];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${size}" viewBox="0 0 ${width} ${size}" font-size="12" font-family="monospace">` +
    "<style>text { fill: #222 } @media (prefers-color-scheme: dark) { text { fill: #ddd } }</style>" +
    `<image href="${map}" x="${left}" y="${top}" width="${cell * columns.length}" height="${cell * rows.length}" preserveAspectRatio="none" image-rendering="pixelated"/>` +
    `<rect x="${left}" y="${top + cell * row}" width="${cell * columns.length}" height="${cell}" fill="none" stroke="#d55e00" stroke-width="1.5"/>` +
    `${labels.join("")}</svg>`;
  return { svg, top, cell, size };
}

async function savePng(source, name) {
  const picture = new Image();
  picture.src = source;
  await picture.decode();
  const canvas = element("canvas", { width: 2 * picture.naturalWidth, height: 2 * picture.naturalHeight });
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  download(canvas.toDataURL("image/png"), name);
}

/** A caption's tokens, each with the picture lit where it looks. */
function drawPanels(record) {
  return [
    element("p", {}, element("strong", {}, record.caption)),
    element("div", { class: "panels" }, ...record.panels.map(({ token, address, hint }) =>
      element("figure", {}, element("img", { src: address, alt: `${tokenText(token)}: ${hint}`, title: hint }), element("figcaption", {}, tokenText(token))))),
    element("p", { class: "note" }, "The brighter, the more attention while that token was written."),
  ];
}
