// Saves what the page shows as one HTML file, without scripts, which opens offline.

import { download, element, escaped } from "./elements.js";

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/** A style sheet that keeps the colours of the present mode, light or dark, which pictures in the file have, too. */
function inPresentMode(style) {
  const now = getComputedStyle(document.documentElement), mode = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const names = new Set(style.match(/--[\w-]+(?=:)/g));
  const values = [...names].map(name => [name, now.getPropertyValue(name).trim()]).filter(([, value]) => value);
  return `${style}\n:root { color-scheme: ${mode}; ${values.map(pair => `${pair.join(": ")};`).join(" ")} }`;
}

/** heading: of the file. settings: pairs of a label and its value. The file is put together as text: the policy of this page would refuse its styles. */
export function save(name, heading, settings) {
  const style = inPresentMode([...document.styleSheets].flatMap(sheet => [...sheet.cssRules]).map(rule => rule.cssText).join("\n"));
  const result = document.getElementById("result"), copy = result.cloneNode(true);
  const canvases = result.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    canvas.replaceWith(element("img", { src: canvases[i].toDataURL("image/png"), alt: "map", class: canvas.className }));
  });
  copy.querySelectorAll("button").forEach(button => { button.disabled = true; });
  const listed = element("pre", {}, settings.map(pair => pair.join(": ")).join("\n"));
  const file = new Blob([
    `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`,
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}"><title>${escaped(heading)}</title><style>${style}</style></head>`,
    `<body>${element("h1", {}, heading).outerHTML}${listed.outerHTML}${copy.outerHTML}</body></html>\n`,
  ], { type: "text/html" });
  const address = URL.createObjectURL(file);
  download(address, name);
  URL.revokeObjectURL(address);
}
