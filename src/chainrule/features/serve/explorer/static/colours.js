// One scale of colours for weights and surprisals: from the paper to what contrasts with it most, in either mode.

import { element } from "./elements.js";

const STOPS = 7; // --heat-0 to --heat-6 in the style sheet

/** The numbers of a colour that is written as #rrggbb. */
export const rgb = text => [1, 3, 5].map(i => parseInt(text.trim().slice(i, i + 2), 16));

/** The colours of the style sheet: as they are now, or those of light mode, for files. */
function stops(isLight) {
  const styles = isLight ? [...document.styleSheets].flatMap(sheet => [...sheet.cssRules]).find(rule => rule.selectorText === ":root").style :
    getComputedStyle(document.documentElement);
  return Array.from({ length: STOPS }, (_, i) => rgb(styles.getPropertyValue(`--heat-${i}`)));
}

/** A function from a share, 0 to 1, to its colour: red, green and blue, 0 to 255. isLight: of light mode, whatever the present one. */
export function scale(isLight = false) {
  const colours = stops(isLight);
  return share => {
    const place = Math.min(Math.max(share, 0), 1) * (STOPS - 1), below = Math.min(Math.floor(place), STOPS - 2);
    return colours[below].map((value, i) => Math.round(value + (place - below) * (colours[below + 1][i] - value)));
  };
}

/** Black or white, whichever is easier to read on a colour. */
function inkOn(colour) {
  const [r, g, b] = colour.map(value => value / 255).map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

/** Gives an element a background, and a colour of text that is readable on it. */
export function paint(painted, colour) {
  Object.assign(painted.style, { backgroundColor: `rgb(${colour.join(" ")})`, color: inkOn(colour) });
  return painted;
}

/** What the colours mean: boxes from little to much. marks: pairs of a colour and its number. */
export function legend(title, marks) {
  return element("p", { class: "legend" }, element("span", {}, title),
    ...marks.map(([colour, text]) => paint(element("span", { class: "key" }, text), colour)));
}

/** Surprisals in bits to shares of the scale: small differences count for more among small ones. full: bits that have the strongest colour. */
export const ofBits = full => bits => Math.min(1, Math.abs(bits) / full || 0) ** 0.75;

/** Weights, 0 to 1, to shares of the scale: small weights are visible. */
export const ofWeight = weight => Math.min(1, Math.max(0, weight)) ** 0.6;
