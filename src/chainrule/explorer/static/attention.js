// Attention: where each token looks, by layer and head.

import { ask } from "./server.js";
import { element, figure, table, tokenText } from "./elements.js";

export const title = "Attention";
export const fields = ["model", "text", "target", "layer"];

export function load(state, signal) {
  return ask("/v1/explore/attention", { model: state.model, text: state.text, target: state.target || null, layer: Number(state.layer) }, signal);
}

export function draw(record, state, change) {
  const bytes = Uint8Array.from(atob(record.weights), c => c.charCodeAt(0));
  const weights = new Float32Array(bytes.buffer), [height, width] = [record.rows.length, record.columns.length];
  const of = head => weights.subarray(head * height * width, (head + 1) * height * width);
  const head = Math.min(Number(state.head), record.heads - 1), row = Math.min(Number(state.row), height - 1);
  const chosen = of(head).subarray(row * width, (row + 1) * width);
  const order = Array.from(chosen.keys()).sort((a, b) => chosen[b] - chosen[a]).slice(0, 20);
  const layers = record.layers.map((name, i) => element("button", {
    type: "button", "aria-pressed": String(i === record.layer), click: () => change({ layer: String(i), head: "0" }),
  }, name));
  const heads = Array.from({ length: record.heads }, (_, i) => element("button", {
    type: "button", "aria-pressed": String(i === head), click: () => change({ head: String(i) }, false),
  }, heatMap(of(i), width, height), `head ${i + 1}`));
  const large = heatMap(of(head), width, height, 16);
  large.className = "large";
  large.addEventListener("click", event => {
    change({ row: String(Math.floor(event.offsetY / large.clientHeight * height)) }, false);
  });
  const save = element("button", { type: "button", click: () => savePng(large, `attention-${record.layer + 1}-${head + 1}.png`) }, "Save the map as PNG");
  const rows = element("select", { change: event => change({ row: event.target.value }, false) },
    ...record.rows.map((token, i) => element("option", { value: i, selected: i === row }, `${i + 1}. ${tokenText(token)}`)));
  return [
    element("p", {}, ...layers.flatMap(layer => [layer, " "])),
    element("div", { class: "heads" }, ...heads),
    element("div", { class: "columns" },
      element("div", {}, element("h2", {}, `${record.layers[record.layer]}, head ${head + 1}`), large,
        element("p", { class: "note" }, "Rows: the tokens that look. Columns: what they look at. The darker, the more weight. A click chooses a row. "), save),
      element("div", {}, element("label", {}, "Token that looks ", rows),
        table(`Where “${tokenText(record.rows[row])}” looks`, ["token", "weight"],
          order.map(i => [`${i + 1}. ${tokenText(record.columns[i])}`, figure(chosen[i])])))),
  ];
}

/** A canvas with a cell for each weight, so many pixels wide. */
function heatMap(weights, width, height, cell = 1) {
  const small = new OffscreenCanvas(width, height), image = new ImageData(width, height);
  weights.forEach((weight, i) => {
    const share = Math.min(1, Math.max(0, weight)) ** 0.7; // makes small weights visible
    [255 - 247 * share, 255 - 207 * share, 255 - 148 * share, 255].forEach((value, c) => { image.data[4 * i + c] = value; });
  });
  small.getContext("2d").putImageData(image, 0, 0);
  const canvas = element("canvas", { width: width * cell, height: height * cell });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, width * cell, height * cell);
  return canvas;
}

function savePng(canvas, name) {
  element("a", { href: canvas.toDataURL("image/png"), download: name }).click();
}
