// The page: two plots drawn from the embedded data, toggles for depths and seeds, and, when live, a poll a second.

const payload = JSON.parse(document.getElementById("data").textContent);
const hidden = { sizes: new Set(), seeds: new Set() };
const MOST_LINES = 60; // to begin with
const MANY_LINES = 12; // drawn finer
const MOST_DOTS = 1500;
const ROW = 8; // pixels between the triangles of two depths
const MOST_ROWS = 48; // pixels of all of them
const REACH = 6; // an interval that reaches beyond this factor leaves the plot
const POLL = 1000;
let data = payload.plot;
let over = data.over;
let version = payload.version;
let chosen = false;

const byId = (id) => document.getElementById(id);
const name = (size) => {
  const found = data.sizes.find((entry) => entry.size === size);
  const depth = found && found.depth !== null ? `depth ${found.depth}` : null;
  return [depth, `${data.vary} ${size}`].filter(Boolean);
};

// Shallow to deep along the ramp of the style sheet, evenly in the logarithm, as in every plot of depthlr.
function colour(size) {
  const sizes = data.sizes.map((entry) => Math.log(entry.depth || entry.size));
  const own = data.sizes.findIndex((entry) => entry.size === size);
  const [low, high] = [Math.min(...sizes), Math.max(...sizes)];
  const place = high > low ? ((sizes[own] - low) / (high - low)) * 5 : 2;
  const from = Math.min(Math.floor(place), 4);
  return `color-mix(in oklab, var(--s${from}), var(--s${from + 1}) ${Math.round((place - from) * 100)}%)`;
}

function coloured(element, size) {
  element.style.setProperty("--c", colour(size));
  return element;
}

const shown = (curve) => !hidden.sizes.has(curve[0]) && !hidden.seeds.has(curve[1]);

function lossRange() {
  const losses = data.curves.flatMap((curve) => curve[3]).filter((loss) => loss !== null).sort((a, b) => a - b);
  if (!losses.length) return { log: false, range: [0, 1], ticks: [] };
  const optima = data.curves.filter((curve) => curve[4] >= 0).map((curve) => curve[3][curve[4]]);
  const low = losses[0];
  const worst = optima.reduce((most, loss) => Math.max(most, loss), low);
  const usual = losses[Math.floor((losses.length - 1) / 2)];
  // Left of the optimum a loss climbs to that of an untrained model, which belongs on the plot; the wall on the right
  // climbs without end, and leaves it.
  let left = low;
  for (const curve of data.curves)
    curve[3].slice(0, curve[4] + 1).forEach((loss) => loss !== null && (left = Math.max(left, loss)));
  left = Math.min(left, low + 4 * (usual - low));
  let high = Math.max(usual + 0.5 * (usual - low), worst + 0.25 * (worst - low), left);
  high = Math.min(high, losses[losses.length - 1]);
  if (high <= low) high = low + (Math.abs(low) || 1) * 0.1;
  if (low > 0 && high / low > 20) return { log: true, range: [low / 1.15, high * 1.15], ticks: logTicks(low / 1.15, high * 1.15, 8) };
  const room = (high - low) * 0.06;
  return { log: false, range: [low - room, high + room], ticks: evenTicks(low - room, high + room, 6) };
}

// Rates that the page points out on the landscape: vertical lines, with their intervals as bands.
function drawMarks(marks, { svg, inner, px, box }, points) {
  const ordered = [...marks].sort((a, b) => a.rate - b.rate);
  ordered.forEach(({ kind, rate, interval, text }, index) => {
    const x = px(rate);
    if (interval) {
      const [from, to] = interval.map(px);
      node("rect", { class: "band", x: from, y: box.top, width: to - from, height: box.bottom - box.top }, inner);
    }
    node("path", { class: kind, d: line([[x, box.top], [x, box.bottom]]) }, inner);
    const side = index ? { x: x + 5, "text-anchor": "start" } : { x: x - 5, "text-anchor": "end" };
    node("text", { class: "label", y: box.top + 14, ...side }, svg, text);
    const span = interval ? `\n${interval.map(rateText).join(" to ")}` : "";
    points.push({ x, y: box.top + 10, line: "marks", text: `${text}\nrate ${rateText(rate)}${span}` });
  });
}

function drawLandscape() {
  const figure = byId("landscape");
  if (!data.curves.length) return figure.replaceChildren();
  const marks = data.marks || [];
  const seen = [data.rates[0], data.rates[data.rates.length - 1], ...marks.flatMap((mark) => mark.interval || [mark.rate])];
  const [low, high] = [Math.min(...seen) / 1.1, Math.max(...seen) * 1.1];
  const x = { log: true, range: [low, high], ticks: logTicks(low, high, 9), label: "learning rate" };
  const y = { ...lossRange(), label: data.loss };
  const curves = data.curves.filter(shown);
  // Triangles stand in a row a depth, shallow above deep, so that none hides another's.
  const above = (loss) => loss === null || loss > y.range[1];
  const rows = [...new Set(curves.filter((curve) => curve[3].some(above)).map((curve) => curve[0]))].sort((a, b) => b - a);
  const step = Math.min(ROW, MOST_ROWS / rows.length);
  const room = rows.length ? (rows.length - 1) * step : 0;
  const plot = frame(figure, "Loss against rate, one line a depth and seed", x, y, 12, room);
  const { svg, inner, px, py, box } = plot;
  const dotted = curves.reduce((sum, curve) => sum + curve[2].length, 0) <= MOST_DOTS;
  const points = [];
  drawMarks(marks, plot, points);
  for (const curve of curves) {
    const [size, seed, rates, losses, best, edge, failed = []] = curve;
    const kind = curves.length > MANY_LINES ? "curve fine" : "curve";
    const group = coloured(node("g", { class: kind, "data-size": size, "data-seed": seed }, inner), size);
    const top = coloured(node("g", { class: "curve", "data-size": size, "data-seed": seed }, svg), size);
    let path = "";
    let dots = "";
    let up = "";
    const edge_at = box.top - Math.max(0, rows.indexOf(size)) * step;
    rates.forEach((place, index) => {
      const rate = data.rates[place];
      const loss = losses[index];
      const spot = { x: px(rate), y: above(loss) ? edge_at - 4 : py(loss), line: `${size}/${seed}` };
      if (loss !== null) path += (index && losses[index - 1] !== null ? "L" : "M") + at(spot.x, py(loss));
      if (above(loss)) up += `M${at(spot.x - 4, edge_at - 1)}l4 -7l4 7z`;
      else if (dotted) dots += `M${at(spot.x, spot.y)}h0`;
      const said = loss === null ? (failed.includes(index) ? "failed" : "diverged") : `loss ${lossText(loss)}`;
      const mark = index === best ? (edge ? `\noptimum, at the ${edge} edge of the range` : "\noptimum") : "";
      spot.text = `${name(size).join(", ")}, seed ${seed}\nrate ${rateText(rate)}\n${said}${mark}`;
      points.push(spot);
    });
    node("path", { class: "path", d: path }, group);
    if (dots) node("path", { class: "dots", d: dots }, group);
    if (up) node("path", { class: "up", d: up }, top);
  }
  for (const [size, seed, rates, losses, best, edge] of curves) {
    if (best < 0) continue;
    const centre = { cx: px(data.rates[rates[best]]), cy: py(losses[best]), r: 5.5 };
    coloured(node("circle", { class: edge ? "best edge" : "best", "data-size": size, "data-seed": seed, ...centre }, svg), size);
  }
  hoverable(svg, points, byId("hover"));
  figure.replaceChildren(svg);
}

function drawScaling() {
  const figure = byId("scaling");
  if (!figure) return;
  const fit = data.fits[over];
  const rows = data.rows.filter((row) => row[over] !== null && row.rate !== null);
  if (!rows.length) return figure.replaceChildren();
  const where = new Map(data.rows.map((row) => [row.size, row[over]]));
  const seeds = data.curves.filter((curve) => curve[4] >= 0 && where.get(curve[0]) !== null);
  const optimum = (curve) => data.rates[curve[2][curve[4]]];
  const law = (place) => 10 ** (fit.law + data.law * Math.log10(place));
  const line_at = (place) => 10 ** (fit.intercept + fit.slope * Math.log10(place));
  const places = rows.map((row) => row[over]);
  const ends = [Math.min(...places), Math.max(...places)];
  const wide = [ends[0] / 1.12, ends[1] * 1.12];
  let [low, high] = [Infinity, 0];
  const spans = rows.filter((row) => row.seeds && row.interval).flatMap((row) => [
    Math.max(row.interval[0], row.rate / REACH),
    Math.min(row.interval[1], row.rate * REACH),
  ]);
  for (const rate of [...rows.map((row) => row.rate), ...seeds.map(optimum), ...spans, ...(fit ? ends.map(law) : [])])
    [low, high] = [Math.min(low, rate), Math.max(high, rate)];
  const rates = [low / 1.3, high * 1.3];
  const axis = over === "depth" ? "effective depth" : data.vary;
  const x = { log: true, range: wide, ticks: places, label: axis };
  const y = { log: true, range: rates, ticks: logTicks(rates[0], rates[1], 7), label: "best rate" };
  const { svg, inner, px, py, box } = frame(figure, `Best rate against ${axis}, with the fit and the -3/2 law`, x, y, 76);
  const to = (place, rate) => [px(place), py(rate)];
  const labels = [];
  if (fit) {
    const upper = fit.band.map(([place, , most]) => to(place, Math.min(most, rates[1] * 1e3)));
    const lower = fit.band.map(([place, least]) => to(place, Math.max(least, rates[0] / 1e3)));
    if (upper.length) node("path", { class: "band", d: `${line([...upper, ...lower.reverse()])}Z` }, inner);
    node("path", { class: "law", d: line(ends.map((place) => to(place, law(place)))) }, inner);
    node("path", { class: "fit", d: line([ends[0], fit.last].map((place) => to(place, line_at(place)))) }, inner);
    node("path", { class: "fit beyond", d: line([fit.last, ends[1]].map((place) => to(place, line_at(place)))) }, inner);
    labels.push([py(line_at(ends[1])), `fit ${signed(fit.slope)}`, "fit-label"], [py(law(ends[1])), `law ${MINUS}3/2`, ""]);
  }
  const points = [];
  for (const curve of seeds.filter(shown)) {
    const [cx, cy] = to(where.get(curve[0]), optimum(curve));
    const attributes = { class: "seed", "data-size": curve[0], "data-seed": curve[1], cx, cy, r: 3.2 };
    coloured(node("circle", attributes, inner), curve[0]);
    const cut = curve[5] ? `\nat the ${curve[5]} edge of the range: not fitted` : "";
    const text = `${name(curve[0]).join(", ")}, seed ${curve[1]}\nbest rate ${rateText(optimum(curve))}\nloss ${lossText(curve[3][curve[4]])}${cut}`;
    points.push({ x: cx, y: cy, line: "seeds", text });
  }
  for (const row of rows) {
    if (hidden.sizes.has(row.size)) continue;
    const [cx, cy] = to(row[over], row.rate);
    const span = row.interval ? `\n95 % ${rateText(row.interval[0])} to ${rateText(row.interval[1])}` : "";
    if (!row.seeds) {
      node("path", { class: "future", d: `M${at(cx, cy - 5.5)}l5.5 5.5l-5.5 5.5l-5.5 -5.5z` }, inner);
      points.push({ x: cx, y: cy, line: "fit", text: `${data.vary} ${row.size}${row.depth ? `, depth ${row.depth}` : ""}\nrate ${rateText(row.rate)} by the fit${span}` });
      continue;
    }
    const group = coloured(node("g", { class: "point", "data-size": row.size }, inner), row.size);
    if (row.interval) {
      const [bottom, top] = row.interval.map(py);
      node("path", { class: "bars", d: `M${at(cx, bottom)}L${at(cx, top)}M${at(cx - 5, bottom)}h10M${at(cx - 5, top)}h10` }, group);
    }
    node("circle", { class: "mean", cx, cy, r: 6 }, group);
    points.push({ x: cx, y: cy, line: "means", text: `${name(row.size).join(", ")}\nbest rate ${rateText(row.rate)}, ${row.seeds} seeds${span}` });
  }
  labels.sort((a, b) => a[0] - b[0]);
  if (labels.length && labels[1][0] - labels[0][0] < 16) {
    const middle = (labels[0][0] + labels[1][0]) / 2;
    [labels[0][0], labels[1][0]] = [middle - 8, middle + 8];
  }
  for (const [height, text, kind] of labels)
    node("text", { class: kind, x: box.right + 8, y: Math.min(Math.max(height, box.top), box.bottom) + 4 }, svg, text);
  hoverable(svg, points, byId("hover"));
  figure.replaceChildren(svg);
}

function draw() {
  byId("hover").hidden = true;
  drawScaling();
  drawLandscape();
}

function chip(parent, text, pressed, press, size) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", String(pressed));
  if (size !== undefined) {
    const swatch = coloured(document.createElement("span"), size);
    swatch.className = "swatch";
    button.append(swatch);
  }
  button.append(text);
  button.addEventListener("click", () => {
    press();
    const place = [...parent.children].indexOf(button);
    controls();
    if (parent.children[place]) parent.children[place].focus();
    draw();
  });
  parent.append(button);
}

function chips(id, values, text, swatch) {
  const parent = byId(id);
  const set = hidden[id];
  parent.replaceChildren();
  if (values.length < 2) return;
  for (const value of values) {
    const flip = () => (set.has(value) ? set.delete(value) : set.add(value));
    chip(parent, text(value), !set.has(value), flip, swatch ? value : undefined);
  }
  const all = values.every((value) => !set.has(value));
  chip(parent, all ? "none" : "all", false, () => values.forEach((value) => (all ? set.add(value) : set.delete(value))));
}

function controls() {
  chips("sizes", data.sizes.map((entry) => entry.size), (size) => name(size)[0], true);
  chips("seeds", data.seeds, (seed) => `seed ${seed}`, false);
  if (byId("over")) byId("over").replaceChildren();
  if (!byId("over") || data.over !== "depth") return;
  for (const [key, text] of [["depth", "effective depth"], ["size", data.vary]])
    chip(byId("over"), text, over === key, () => (over = key));
}

// Of very many curves, begin with as many as an eye can follow.
function choose() {
  if (chosen || data.curves.length <= MOST_LINES) return;
  chosen = true;
  const each = Math.max(1, Math.ceil(data.sizes.length / MOST_LINES));
  data.sizes.forEach((entry, index) => index % each && hidden.sizes.add(entry.size));
  const lines = data.sizes.length - hidden.sizes.size;
  data.seeds.slice(Math.max(1, Math.floor(MOST_LINES / lines))).forEach((seed) => hidden.seeds.add(seed));
}

function update() {
  if (data.over !== "depth") over = "size";
  choose();
  controls();
  draw();
}

function apply(fresh) {
  version = fresh.version;
  for (const id in fresh.sections) byId(id).innerHTML = fresh.sections[id]; // escaped where it was made
  byId("title").textContent = document.title = fresh.title;
  const counted = data.over === "depth";
  data = fresh.plot;
  if (!counted && data.over === "depth") over = "depth";
  update();
}

let waiting = 0;

async function poll() {
  clearTimeout(waiting);
  let pause = POLL;
  try {
    const answer = await fetch(`data?since=${version}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    if (answer.status === 200) apply(await answer.json());
    byId("status").classList.remove("lost");
  } catch {
    if (!byId("status").classList.contains("lost")) byId("status").append(" · not connected");
    byId("status").classList.add("lost");
    version = 0; // what a server that comes back has is new
    pause = 3 * POLL;
  }
  clearTimeout(waiting);
  waiting = setTimeout(poll, pause);
}

update();
let width = 0;
new ResizeObserver(() => {
  if (width !== document.body.clientWidth) draw();
  width = document.body.clientWidth;
}).observe(document.body);
if (document.documentElement.dataset.live === "true") {
  document.addEventListener("visibilitychange", () => document.hidden || poll());
  poll();
}
