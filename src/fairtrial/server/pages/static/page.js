// Keeps a page up to date while its study runs. Without this script, users can reload it.
"use strict";

const INTERVAL = 3000;
const MOST = 60000;

const live = document.getElementById("live");
const news = document.getElementById("news");
let known = null;
let part = location.search;
let pause = INTERVAL;

// Do not disturb users who type or have selected text.
function isBusy() {
  const active = document.activeElement;
  const typing = active && live.contains(active) && active.matches("input, textarea, select");
  const marked = document.getSelection();
  return typing || live.dataset.busy || (marked && !marked.isCollapsed && live.contains(marked.anchorNode));
}

function path(node) {
  const steps = [];
  for (let one = node; one !== live; one = one.parentElement) {
    steps.unshift([...one.parentElement.children].indexOf(one));
  }
  return steps;
}

function at(steps) {
  return steps.reduce((node, step) => node && node.children[step], live);
}

function show(text) {
  const page = new DOMParser().parseFromString(text, "text/html");
  const next = page.getElementById("live");
  if (!next || next.dataset.state === live.dataset.state) return;
  const open = [...live.querySelectorAll("details")].map((one) => one.open);
  const active = live.contains(document.activeElement) ? path(document.activeElement) : null;
  live.replaceChildren(...document.adoptNode(next).childNodes);
  live.dataset.state = next.dataset.state;
  const details = [...live.querySelectorAll("details")];
  if (details.length === open.length) details.forEach((one, n) => (one.open = open[n]));
  live.dispatchEvent(new Event("shown"));
  if (active) at(active)?.focus({ preventScroll: true });
  const moment = live.querySelector("[data-moment]");
  if (moment) news.textContent = "Updated. " + moment.textContent;
}

async function load() {
  const address = location.href;
  const headers = known ? { "If-None-Match": known } : {};
  const answer = await fetch(address, { headers, cache: "no-store", redirect: "error" });
  if (answer.status === 304) return;
  if (!answer.ok) throw new Error(answer.status);
  const text = await answer.text();
  // Another range of results may have been chosen meanwhile.
  if (address !== location.href || live.dataset.busy) return;
  known = answer.headers.get("ETag");
  show(text);
}

async function look() {
  if (!document.hidden && !isBusy()) await load();
}

// The address contains the range of results; links within the page only change its fragment.
async function zoom() {
  if (part === location.search) return;
  part = location.search;
  known = null;
  for (const back of document.getElementsByName("back")) back.value = location.pathname + location.search;
  try {
    await load();
    const { begin, end, total } = live.querySelector(".zoom")?.dataset ?? {};
    if (total) news.textContent = `Showing results ${begin} to ${end} of ${total}.`;
  } catch {
    // The page is an error message.
    location.reload();
  }
}

async function follow() {
  try {
    await look();
    pause = INTERVAL;
  } catch {
    // The server is unreachable or busy: ask less and less often.
    pause = Math.min(2 * pause, MOST);
    news.textContent = "The newest state could not be loaded; trying again.";
  }
  setTimeout(follow, pause);
}

if (live && live.dataset.state) setTimeout(follow, INTERVAL);
live?.addEventListener("zoomed", zoom);
if (live) addEventListener("popstate", zoom);

document.querySelector(".problems")?.focus();

// Send a form only once, however often its button is pressed.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});
