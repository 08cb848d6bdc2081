"""The frame and the style sheet of a report's page: nothing is loaded from elsewhere, nor may be."""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{about}</p>
<nav aria-label="Contents"><ul>{links}</ul></nav>
</header>
<main>
{parts}
</main>
</body>
</html>
"""

STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1b1f; --quiet: #55555c; --edge: #d8d8de; --best: #e6f2fb; --link: #0060a0 }
@media (prefers-color-scheme: dark) { :root {
  --paper: #16181d; --ink: #ececf1; --quiet: #b0b0b8; --edge: #3c3e46; --best: #17344a; --link: #7cc4f5 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem }
h3 { font-size: 1rem; margin: 0 0 .5rem }
section > p { overflow-wrap: anywhere }
header p, figcaption, caption { color: var(--quiet) }
a { color: var(--link) }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; list-style: none }
.wide { overflow-x: auto }
.wide:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
caption { text-align: left; padding-bottom: .25rem }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--edge); text-align: right; white-space: nowrap }
thead th { vertical-align: bottom; white-space: normal }
th:first-child { text-align: left; padding-left: .3rem; position: sticky; left: 0; background: var(--paper) }
tr.best > *, tr.best > th:first-child { background: var(--best); font-weight: 600 }
td:has(code) { text-align: left }
figure { margin: 0 }
.plot { display: block; width: 100%; min-width: 34rem; max-width: 48rem; height: auto }
.cards { display: grid; gap: 1rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)) }
.cards article { border: 1px solid var(--edge); border-radius: .5rem; padding: .75rem 1rem; overflow-wrap: anywhere }
.cards p { margin: 0 0 .6rem }
details { margin: .5rem 0 }
summary { cursor: pointer }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--edge); border-radius: .5rem; font-size: .85rem }
"""
