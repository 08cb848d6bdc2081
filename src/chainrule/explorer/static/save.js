// Saves what the page shows as one HTML file, without scripts, which opens offline.

import { element } from "./elements.js";

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

export async function save(name) {
  const style = await fetch("style.css").then(response => response.text());
  const page = document.implementation.createHTMLDocument(document.title);
  page.documentElement.lang = "en";
  const meta = attributes => page.head.append(element("meta", attributes));
  page.head.prepend(element("meta", { charset: "utf-8" }));
  meta({ name: "viewport", content: "width=device-width, initial-scale=1" });
  meta({ "http-equiv": "Content-Security-Policy", content: POLICY });
  page.head.append(element("style", {}, style));
  const result = document.getElementById("result"), copy = result.cloneNode(true);
  const canvases = result.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    canvas.replaceWith(element("img", { src: canvases[i].toDataURL("image/png"), alt: "map", class: canvas.className }));
  });
  copy.querySelectorAll("button").forEach(button => { button.disabled = true; });
  const shown = [...document.querySelectorAll("#controls [name]")].filter(field => !field.closest("[hidden]"));
  page.body.append(element("h1", {}, document.title), element("pre", {}, shown.map(field => `${field.name}: ${field.value}`).join("\n")), copy);
  const file = new Blob(["<!doctype html>\n", page.documentElement.outerHTML], { type: "text/html" });
  const link = element("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}
