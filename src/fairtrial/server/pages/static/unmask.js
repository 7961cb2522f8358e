// Opens an unmasking list in the browser: neither the file nor a name leaves this computer.
// How it is sealed: fairtrial/study/unmasking.py.
"use strict";

const NONCE = 16;
const LENGTH = 640;
const LANE = (1n << 64n) - 1n;
const FIVE = [0, 1, 2, 3, 4];

const file = document.getElementById("list");
const problem = document.getElementById("list-problem");

function rotated(lane, by) {
  const shift = BigInt(by % 64);
  return ((lane << shift) | (lane >> (64n - shift))) & LANE;
}

// Keccak-f[1600] of FIPS 202.
function permute(lanes) {
  let bits = 1;
  for (let round = 0; round < 24; round++) {
    const column = FIVE.map((x) => FIVE.reduce((sum, y) => sum ^ lanes[x + 5 * y], 0n));
    const mixed = FIVE.map((x) => column[(x + 4) % 5] ^ rotated(column[(x + 1) % 5], 1));
    for (let at = 0; at < 25; at++) lanes[at] ^= mixed[at % 5];
    let x = 1;
    let y = 0;
    let lane = lanes[1];
    for (let step = 0; step < 24; step++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const next = lanes[x + 5 * y];
      lanes[x + 5 * y] = rotated(lane, ((step + 1) * (step + 2)) / 2);
      lane = next;
    }
    for (const row of FIVE) {
      const before = lanes.slice(5 * row, 5 * row + 5);
      for (const x of FIVE) {
        lanes[5 * row + x] = before[x] ^ (~before[(x + 1) % 5] & LANE & before[(x + 2) % 5]);
      }
    }
    for (let bit = 0; bit < 7; bit++) {
      bits = (bits << 1) ^ ((bits >> 7) * 0x171);
      if (bits & 2) lanes[0] ^= 1n << BigInt(2 ** bit - 1);
    }
  }
}

// SHAKE256 of a text that is shorter than one block.
function shake(text, length) {
  const rate = 136;
  const block = new Uint8Array(200);
  block.set(text);
  block[text.length] ^= 0x1f;
  block[rate - 1] ^= 0x80;
  const lanes = [...new BigUint64Array(block.buffer)];
  const found = new Uint8Array(Math.ceil(length / rate) * rate);
  for (let begin = 0; begin < length; begin += rate) {
    permute(lanes);
    found.set(new Uint8Array(BigUint64Array.from(lanes).buffer, 0, rate), begin);
  }
  return found.slice(0, length);
}

function bytes(digits) {
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function joined(...parts) {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

// Return the name in a seal; raise if it was not sealed with this key.
async function opened(seal, digits) {
  const key = bytes(digits);
  const content = bytes(seal);
  const body = content.slice(0, NONCE + LENGTH);
  const text = new TextEncoder();
  const how = { name: "HMAC", hash: "SHA-256" };
  const check = await crypto.subtle.importKey("raw", key, how, false, ["verify"]);
  const tagged = joined(text.encode("tag\0"), body);
  if (!(await crypto.subtle.verify("HMAC", check, content.slice(NONCE + LENGTH), tagged))) {
    throw new Error("another key");
  }
  const stream = shake(joined(text.encode("stream\0"), key, body.slice(0, NONCE)), LENGTH);
  const name = body.slice(NONCE).map((one, at) => one ^ stream[at]);
  return JSON.parse(new TextDecoder().decode(name));
}

async function open() {
  problem.textContent = "";
  if (!crypto.subtle) {
    problem.textContent = "This browser opens a list only on a page with https. Use the command below.";
    return;
  }
  try {
    const { names } = JSON.parse(await file.files[0].text());
    const codes = [...document.querySelectorAll("[data-code]")];
    const found = await Promise.all(codes.map(({ dataset }) => opened(names[dataset.code], dataset.key)));
    codes.forEach((one, at) => (one.textContent = found[at]));
  } catch {
    problem.textContent = "This must be the unmasking list of this study, unchanged.";
  }
}

document.getElementById("list-form").hidden = false;
file.addEventListener("change", open);
