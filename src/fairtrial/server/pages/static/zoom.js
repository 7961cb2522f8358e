// Zooms charts over time by mouse, touch and keyboard. Without it, use the links and the form.
const LEAST = 4;
const FACTOR = 1.25;
const SETTLE = 250;
const KEYS = {
  "+": "in", "=": "in", "-": "out", ArrowLeft: "earlier", ArrowRight: "later", End: "newest", 0: "whole",
};

const page = document.getElementById("live");
const pointers = new Map();
// The range shown during a gesture: {figure, begin, end}.
let view = null;
let settling = null;

function zoomOf(figure) {
  const { begin, end, total } = figure.querySelector(".zoom").dataset;
  return { begin: Number(begin), end: Number(end), total: Number(total) };
}

function prepare() {
  for (const zoom of page.querySelectorAll(".zoom")) {
    zoom.querySelector("[data-script]").hidden = false;
    const picture = zoom.parentElement.querySelector("[role=img]");
    picture.tabIndex = 0;
    picture.classList.add("zoomable");
  }
}

// Show another range of results, which page.js loads.
function go(begin, end, figure) {
  const { begin: before, end: until, total } = zoomOf(figure);
  if (begin === before && end === until) return reset();
  const query = new URLSearchParams();
  if (begin > 0 || end < total) query.set("from", begin);
  if (end < total) query.set("to", end);
  open(`${location.pathname}${query.size ? "?" : ""}${query}`);
}

function open(address) {
  // Leave a page that reports a mistake in its address.
  if (!page.dataset.state) return location.assign(address);
  history.pushState(null, "", address);
  page.dispatchEvent(new Event("zoomed"));
}

function plotOf(figure) {
  return figure.querySelector(".plot").getBoundingClientRect();
}

function resultAt(figure, x, { begin, end } = zoomOf(figure)) {
  const plot = plotOf(figure);
  const share = Math.min(Math.max((x - plot.left) / plot.width, 0), 1);
  return begin + share * (end - begin);
}

// ----------------------------------------------------------------- during a gesture------

// The curves move at once; axes and details follow with the page.
function preview(figure, begin, end) {
  const known = zoomOf(figure);
  const width = Math.min(Math.max(end - begin, LEAST), known.total);
  const middle = (begin + end) / 2;
  const first = Math.min(Math.max(middle - width / 2, 0), known.total - width);
  view = { figure, begin: first, end: first + width };
  page.dataset.busy = "yes";
  const scale = 1000 / (known.end - known.begin);
  for (const curves of page.querySelectorAll("figure:has(.zoom) .curves")) {
    curves.classList.add("moving");
    curves.setAttribute("viewBox", `${(first - known.begin) * scale} 0 ${width * scale} 1000`);
  }
}

function reset() {
  view = null;
  for (const curves of page.querySelectorAll(".curves.moving")) curves.setAttribute("viewBox", "0 0 1000 1000");
}

function settle() {
  clearTimeout(settling);
  delete page.dataset.busy;
  if (!view) return;
  const { figure, begin, end } = view;
  view = null;
  go(Math.round(begin), Math.max(Math.round(end), Math.round(begin) + 1), figure);
}

function select(figure, from, to) {
  const plot = figure.querySelector(".plot");
  let box = plot.querySelector(".selection");
  if (!box) {
    box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    box.setAttribute("class", "selection");
    box.setAttribute("height", "100%");
    plot.append(box);
  }
  const { left, width } = plotOf(figure);
  const ends = [from, to].map((x) => (100 * Math.min(Math.max(x - left, 0), width)) / width);
  box.setAttribute("x", `${Math.min(...ends)}%`);
  box.setAttribute("width", `${Math.abs(ends[1] - ends[0])}%`);
}

function figureOf(event) {
  const picture = event.target.closest?.(".zoomable");
  return picture && picture.closest("figure");
}

page.addEventListener("pointerdown", (event) => {
  const figure = figureOf(event);
  if (!figure || event.button !== 0) return;
  event.target.closest(".zoomable").setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, { figure, start: event.clientX, x: event.clientX });
  page.dataset.busy = "yes";
});

addEventListener("pointermove", (event) => {
  const one = pointers.get(event.pointerId);
  if (!one) return;
  const before = one.x;
  one.x = event.clientX;
  const shown = view ?? zoomOf(one.figure);
  if (pointers.size === 2) {
    const other = [...pointers.entries()].find(([id]) => id !== event.pointerId)[1];
    const [fixed, moved] = [other.x, before].map((x) => resultAt(one.figure, x, shown));
    const apart = one.x - other.x;
    if (Math.abs(apart) < 10 || fixed === moved) return;
    // Keep the points under the two fingers in place.
    const scale = (moved - fixed) / apart;
    const { left, width } = plotOf(one.figure);
    if (scale > 0) preview(one.figure, fixed - (other.x - left) * scale, fixed + (left + width - other.x) * scale);
  } else if (event.pointerType === "touch") {
    const moved = ((before - one.x) * (shown.end - shown.begin)) / plotOf(one.figure).width;
    preview(one.figure, shown.begin + moved, shown.end + moved);
  } else {
    select(one.figure, one.start, one.x);
  }
});

function lift(event) {
  const one = pointers.get(event.pointerId);
  pointers.delete(event.pointerId);
  if (!one || pointers.size) return null;
  delete page.dataset.busy;
  one.figure.querySelector(".selection")?.remove();
  return one;
}

addEventListener("pointerup", (event) => {
  const one = lift(event);
  if (!one) return;
  if (view) {
    settle();
  } else if (event.pointerType !== "touch" && Math.abs(event.clientX - one.start) > 5) {
    const ends = [one.start, event.clientX].map((x) => Math.round(resultAt(one.figure, x)));
    const begin = Math.min(...ends);
    go(begin, Math.max(...ends, begin + 1), one.figure);
  }
});

// The browser scrolls instead of zooming.
addEventListener("pointercancel", (event) => lift(event) && reset());

// Browsers report a pinch on a touchpad this way; the wheel alone scrolls the page.
page.addEventListener(
  "wheel",
  (event) => {
    const figure = figureOf(event);
    if (!figure || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const shown = view ?? zoomOf(figure);
    const there = resultAt(figure, event.clientX, shown);
    const by = event.deltaY < 0 ? 1 / FACTOR : FACTOR;
    preview(figure, there - (there - shown.begin) * by, there + (shown.end - there) * by);
    clearTimeout(settling);
    settling = setTimeout(settle, SETTLE);
  },
  { passive: false },
);

page.addEventListener("dblclick", (event) => {
  const figure = figureOf(event);
  if (figure) go(0, zoomOf(figure).total, figure);
});

page.addEventListener("keydown", (event) => {
  const step = KEYS[event.key];
  if (!step || !event.target.matches(".zoomable") || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.target.closest("figure").querySelector(`[data-zoom=${step}]`).click();
});

page.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-zoom]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  if (link.href) open(link.href.split("#")[0]);
});

page.addEventListener("shown", prepare);
prepare();
