// Attention: an overview of all heads, then one of them large, as a map or as lines; of a caption, on the picture.

import { ask } from "../server.js";
import { legend, ofWeight, scale } from "../colours.js";
import { button, download, element, figure, withSign, table, tokenElement, tokenText } from "../elements.js";
import { drawLines, savedLines } from "./attention_lines.js";
import { drawMap, heatMap, mapOf, pixelColours } from "./attention_map.js";
import { subject } from "./next.js";

export const title = "Attention";
export const fields = ["model", "given", "picture", "text"];

// What heads look at, by the record's names: a word for the overview, and the end of "looks at".
export const KINDS = {
  previous: ["previous", "the previous token"], first: ["first", "the first token"], itself: ["itself", "the token itself"],
  same: ["same", "the same token elsewhere"], separators: ["separators", "separators"], one: ["one token", "one token"], broad: ["broad", "many tokens"], mixed: ["mixed", "a few tokens"],
};

/** The body of the request; without a layer, that of the head that tells most. */
export function body(state) {
  return { ...subject(state), layer: state.layer === "" ? null : Number(state.layer), without: state.without === "true" };
}

export async function load(state, signal) {
  const record = await ask("/v1/explore/attention", body(state), signal);
  return record.weights ? { ...record, weights: floats(record.weights) } : record;
}

/** Bytes from base64, in a loop: megabytes by the iterator of a string take seconds. */
function bytes(text) {
  const binary = atob(text), values = new Uint8Array(binary.length);
  for (let i = 0; i < values.length; i++) values[i] = binary.charCodeAt(i);
  return values;
}

/** float32 numbers, little-endian, from base64. */
function floats(text) {
  return new Float32Array(bytes(text).buffer);
}

/** The weights of a head, without special tokens if they are left out: rows and columns, and their numbers in the text. */
function shownOf(record, head, leavesOut) {
  const numbers = [record.rows, record.columns].map((tokens, side) =>
    [...tokens.keys()].filter(i => !leavesOut || !record.special[side].includes(i)));
  const [rows, columns] = numbers.map((own, side) => own.map(i => [record.rows, record.columns][side][i]));
  const [height, width] = [record.rows.length, record.columns.length], of = record.weights.subarray(head * height * width, (head + 1) * height * width);
  const weights = leavesOut ? Float32Array.from(numbers[0].flatMap(i => numbers[1].map(j => of[i * width + j]))) : of;
  return { rows, columns, weights, numbers };
}

export function draw(record, state, change) {
  if (record.kind === "picture") return drawPanels(record);
  const isWanted = state.head !== "" && Number(state.head) < record.heads, isMissing = state.head !== "" && !isWanted;
  const head = isWanted ? Number(state.head) : record.chosen[0] === record.layer ? record.chosen[1] : 0;
  const leavesOut = state.special === "out" && record.special.every((own, side) => own.length < [record.rows, record.columns][side].length);
  const shown = shownOf(record, head, leavesOut), [numbers] = shown.numbers;
  const usual = Math.max(0, numbers.findLastIndex(i => !record.special[0].includes(i)));
  const asked = state.row === "" ? -1 : numbers.indexOf(Number(state.row)), row = asked < 0 ? usual : asked;
  const what = `${record.layers[record.layer]}, head ${head + 1}`, isLines = state.as === "lines", name = `${isLines ? "lines" : "attention"}-${record.layer + 1}-${head + 1}`;
  const list = element("div", {}), point = i => {
    list.style.minHeight = `${list.offsetHeight}px`; // a shorter list would move the page under the pointer
    list.replaceChildren(...drawRow(shown, i));
  };
  const acts = { point, choose: i => change({ row: String(numbers[i]) }, false), alt: `The weights of ${what}; the list has those of one token.` };
  const pressed = is => ({ "aria-pressed": String(is) });
  const as = (value, text) => button(text, () => change({ as: value }, false), pressed(state.as === value));
  const saved = () => isLines ? savedLines(shown, asked < 0 ? null : row) : mapOf(shown, true).svg;
  const rows = element("select", { "aria-label": "Token that looks", change: event => change({ row: event.target.value }, false) },
    ...shown.rows.map((token, i) => element("option", { value: numbers[i], selected: i === row }, `${numbers[i] + 1}. ${tokenText(token)}`)));
  point(row);
  const colour = scale();
  return [
    ...drawOverview(record, head, state, change),
    element("h2", {}, what),
    isMissing ? element("p", { class: "note" }, `There is no head ${Number(state.head) + 1} in ${record.layers[record.layer]}, which has ${record.heads}; this is head ${head + 1}.`) : "",
    element("p", {}, looksAt(record.overview[record.layer][head])),
    element("p", { class: "choices" }, as("map", "Map"), as("lines", "Lines"),
      record.special[1].length > 0 && button("Leave out special tokens", () => change({ special: leavesOut ? "kept" : "out" }, false), pressed(leavesOut)),
      element("label", {}, "Token that looks ", rows)),
    element("div", { class: "columns" },
      element("div", {}, isLines ? drawLines(shown, asked < 0 ? null : row, acts) : drawMap(shown, row, acts),
        legend("Weight: ", [0, 0.05, 0.2, 0.4, 0.7, 1].map(weight => [colour(ofWeight(weight)), String(weight)])),
        element("p", { class: "note" }, isLines ? "Left: the tokens that look; right: what they look at. The stronger a line, the more weight; those below 0.01 are not drawn. Point at a token for its own; a click keeps it." :
          "Each row: where a token looks. The stronger the colour, the more weight. Point at a row for its tokens; a click keeps it."),
        leavesOut ? element("p", { class: "note" }, "Special tokens are left out; the rest of a row no longer adds up to 1.") : "",
        element("p", {}, button("Save as PNG", () => savePng(saved(), `${name}.png`)), " ", button("Save as SVG", () => download(address(saved()), `${name}.svg`)))),
      list),
  ];
}

/** What one token looks at: its heading and a table. */
function drawRow({ rows, columns, weights, numbers }, row) {
  const own = weights.subarray(row * columns.length, (row + 1) * columns.length);
  const order = Array.from(own.keys()).filter(i => own[i]).sort((a, b) => own[b] - own[a]).slice(0, 20);
  return [
    element("h3", {}, `Where “${tokenText(rows[row])}” looks`),
    table("The tokens with the most weight", ["token", "weight"],
      order.map(i => [element("span", {}, `${numbers[1][i] + 1}. `, tokenElement(columns[i])), figure(own[i])])),
  ];
}

const percent = share => `${Math.round(100 * share)}\u00a0%`;

/** What a head looks at, in a sentence. */
function looksAt({ kind, looks, most, entropy }) {
  const ends = Object.entries(looks).map(([name, share]) => `${KINDS[name][1]} ${percent(share)}`);
  if (kind === "one") ends.unshift(`“${tokenText(most.token)}”, token ${most.place + 1}, ${percent(most.share)}`);
  return `Looks at ${KINDS[kind][1]}. Of its weight: ${ends.join(", ")}. Entropy ${figure(entropy, 2)} nats, as if it were spread over ${figure(Math.exp(entropy), 1)} tokens.`;
}

/** All heads: small maps, what they look at, and a list of them; where there is little room, the list alone. */
function drawOverview(record, head, state, change) {
  const colours = pixelColours(), pick = (layer, own) => change({ layer: String(layer), head: String(own) }, layer !== record.layer);
  const kinds = [...new Set(record.overview.flat().map(own => own.kind))], name = (layer, own) => `${record.layers[layer]}, head ${own + 1}`;
  const isDim = own => state.kind !== "" && kinds.includes(state.kind) && own.kind !== state.kind;
  const without = layer => record.without?.[layer], lost = (layer, own) => without(layer) ? ` ${withSign(without(layer)[own], 2)}` : "";
  const small = (own, layer, i) => element("button", {
    type: "button", class: isDim(own) ? "dim" : null, "aria-pressed": String(layer === record.layer && i === head),
    title: `${name(layer, i)}. ${looksAt(own)}`, "aria-label": `${name(layer, i)}: ${KINDS[own.kind][0]}${lost(layer, i)}`, click: () => pick(layer, i),
  }, heatMap(Float32Array.from(bytes(own.picture), value => value / 255), own.width, own.height, colours), element("span", {}, KINDS[own.kind][0], lost(layer, i)));
  const list = element("select", { class: "head-list", "aria-label": "Layer and head", change: event => pick(...event.target.value.split(" ").map(Number)) },
    ...record.overview.flatMap((layer, i) => layer.map((own, j) => element("option", { value: `${i} ${j}`, selected: i === record.layer && j === head },
      `${name(i, j)}: ${KINDS[own.kind][0]}${own.kind in own.looks ? ` ${percent(own.looks[own.kind])}` : own.kind === "one" ? ` ${percent(own.most.share)}` : ""}, entropy ${figure(own.entropy, 2)}${lost(i, j)}`))));
  const filter = element("select", { "aria-label": "Heads that look at", change: event => change({ kind: event.target.value }, false) },
    element("option", { value: "" }, "all"), ...kinds.map(kind => element("option", { value: kind, selected: kind === state.kind },
      `${KINDS[kind][1]} (${record.overview.flat().filter(own => own.kind === kind).length})`)));
  return [
    element("div", { class: "choices" }, element("label", {}, "Head ", list), element("label", { class: "of-grid" }, "Show those that look at ", filter),
      record.removable ? button("What is lost without each head?", () => change({ without: String(!record.without) }), { "aria-pressed": String(Boolean(record.without)) }) : ""),
    record.without ? element("p", { class: "note" }, "The numbers at the heads: how log P of the text changes without each, in nats. Below 0, the head helps; above 0, the text is likelier without it." +
      (record.without.includes(null) ? ` To read the text without each head of all layers would take long: these are the heads of ${record.layers[record.layer]}. Choose a head of another layer for its numbers.` : "")) : "",
    element("div", { class: "wide heads", role: "group", "aria-label": "All heads" }, element("table", {}, element("tbody", {},
      ...record.overview.map((layer, i) => element("tr", {}, element("th", { scope: "row" }, record.layers[i]), ...layer.map((own, j) => element("td", {}, small(own, i, j)))))))),
  ];
}

const address = svg => `data:image/svg+xml,${encodeURIComponent(svg)}`;

/** Saves a drawing with two pixels for each of its own. */
async function savePng(svg, name) {
  const picture = new Image();
  picture.src = address(svg);
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
