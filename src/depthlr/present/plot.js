// Small SVG plots: scales, axes, and a hover that finds the nearest point. No page state lives here.

const SVG = "http://www.w3.org/2000/svg";

function node(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

const MINUS = "\u2212";
const signed = (value) => value.toFixed(2).replace("-", MINUS);

function rateText(rate) {
  const [mantissa, exponent] = rate.toExponential(2).split("e");
  return `${mantissa}e${+exponent}`;
}

const lossText = (loss) => (loss >= 1e5 || loss < 1e-3 ? loss.toExponential(3) : loss.toPrecision(4));

function tickText(value) {
  if (value >= 1e-3 && value < 1e4) return String(+value.toPrecision(6));
  const [mantissa, exponent] = value.toExponential(0).split("e");
  return `${mantissa}e${+exponent}`;
}

function scale(log, from, to) {
  const of = log ? Math.log10 : (value) => value;
  const low = of(from[0]);
  const unit = (to[1] - to[0]) / (of(from[1]) - low || 1);
  return (value) => to[0] + (of(value) - low) * unit;
}

function logTicks(low, high, most) {
  const decades = Math.log10(high / low);
  const every = Math.max(1, Math.ceil(decades / most));
  const digits = decades > 3.5 ? [1] : decades > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    if (power % every === 0) for (const digit of digits) ticks.push(digit * 10 ** power);
  return ticks.filter((tick) => tick >= low * 0.9999 && tick <= high * 1.0001);
}

function evenTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((digit) => digit * power >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(+tick.toPrecision(9));
  return ticks;
}

// Ticks whose labels keep `gap` pixels apart, the first and the last of them first.
function spaced(ticks, place, gap) {
  const kept = [];
  for (const tick of [ticks[0], ticks[ticks.length - 1], ...ticks])
    if (tick !== undefined && kept.every((other) => Math.abs(place(other) - place(tick)) >= gap)) kept.push(tick);
  return kept;
}

// An SVG as wide as its figure, with axes; `inner` clips what is drawn on it. x and y: {log, range, ticks, label};
// `right` and `above` are room beside and over the plot.
function frame(figure, label, x, y, right, above = 0) {
  const width = Math.max(280, figure.clientWidth || 640);
  const height = Math.round(Math.min(Math.max(width * (width < 700 ? 0.78 : 0.45), 330), 470) + above);
  const box = { left: 58, top: 30 + above, right: width - right, bottom: height - 46 };
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: 0, "aria-label": label });
  const px = scale(x.log, x.range, [box.left, box.right]);
  const py = scale(y.log, y.range, [box.bottom, box.top]);
  for (const tick of spaced(y.ticks, py, 20)) {
    node("line", { class: "grid", x1: box.left, x2: box.right, y1: py(tick), y2: py(tick) }, svg);
    node("text", { x: box.left - 8, y: py(tick) + 4, "text-anchor": "end" }, svg, tickText(tick));
  }
  for (const tick of spaced(x.ticks, px, 46)) {
    node("line", { class: "grid", x1: px(tick), x2: px(tick), y1: box.top, y2: box.bottom }, svg);
    node("text", { x: px(tick), y: box.bottom + 19, "text-anchor": "middle" }, svg, tickText(tick));
  }
  node("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
  node("text", { class: "label", x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, svg, x.label);
  node("text", { class: "label", x: 0, y: 14 }, svg, y.label);
  const size = { width: box.right - box.left, height: box.bottom - box.top };
  const clip = { x: box.left, y: box.top, ...size, viewBox: `${box.left} ${box.top} ${size.width} ${size.height}` };
  const inner = node("svg", { ...clip, overflow: "hidden" }, svg);
  return { svg, inner, px, py, box };
}

const at = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const line = (points) => points.map(([x, y], index) => (index ? "L" : "M") + at(x, y)).join("");

// The nearest of `points` ({x, y, text, line}) to the pointer, or the next one along its line by arrow keys.
function hoverable(svg, points, hover) {
  const halo = node("circle", { class: "halo", r: 8, visibility: "hidden" }, svg);
  let here = -1;
  const show = (index) => {
    here = index;
    const point = points[index];
    halo.setAttribute("cx", point.x);
    halo.setAttribute("cy", point.y);
    halo.setAttribute("visibility", "visible");
    const area = svg.getBoundingClientRect();
    const zoom = area.width / svg.viewBox.baseVal.width;
    hover.textContent = point.text;
    hover.hidden = false;
    const left = area.left + point.x * zoom;
    const top = area.top + point.y * zoom;
    const x = Math.min(Math.max(8, left + 14), Math.max(8, document.documentElement.clientWidth - hover.offsetWidth - 8));
    const above = top - hover.offsetHeight - 14;
    hover.style.transform = `translate(${x}px, ${above < 8 ? top + 14 : above}px)`;
  };
  const hide = () => {
    here = -1;
    hover.hidden = true;
    halo.setAttribute("visibility", "hidden");
  };
  const move = (event) => {
    const area = svg.getBoundingClientRect();
    const zoom = svg.viewBox.baseVal.width / area.width;
    const x = (event.clientX - area.left) * zoom;
    const y = (event.clientY - area.top) * zoom;
    let best = -1;
    let least = 45 * 45;
    points.forEach((point, index) => {
      const far = (point.x - x) ** 2 + (point.y - y) ** 2;
      if (far < least) [best, least] = [index, far];
    });
    if (best < 0) hide();
    else if (best !== here) show(best);
  };
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const lines = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.key === "Escape") return hide();
    if (!points.length || (!by && !lines)) return;
    event.preventDefault();
    if (here < 0) return show(0);
    if (by) return show((here + by + points.length) % points.length);
    let next = here;
    while (points[next].line === points[here].line && next + lines >= 0 && next + lines < points.length) next += lines;
    show(next);
  };
  svg.addEventListener("pointermove", move);
  svg.addEventListener("pointerdown", move);
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", step);
}
