/* SPDX-License-Identifier: MIT */
/*
 * Memory over time. Pictures are made of columns, one a pixel: each shows the instant in it at
 * which most was live. Far out, columns come from the bins that were summed when the page was
 * written; near, from the blocks.
 */

/* ---- what is shown -------------------------------------------------------------------------- */

const sources = data.sources.map(() => null);
let s;                 /* the source that is shown */
let grouping;          /* how it is stacked */
let axis = 'event';    /* or 'time' */
let view = [0, 1];     /* the stretch of the axis in sight */
let chosen = 0;        /* the chosen instant, an event */
let lit = -1;          /* a group that the legend points at */
let columns = null;
let theme = {};

const place = event => axis === 'event' ? event : s.times.of(event);
const eventAt = x => Math.max(0, Math.min(s.n - 1, axis === 'event' ? Math.floor(x) : s.times.at(x)));
const wholeView = () => [0, Math.max(1, axis === 'event' ? s.n : s.times.end)];

function readTheme() {
  const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(name).trim();
  theme = {groups: []};
  for (const name of ['paper', 'panel', 'ink', 'soft', 'faint', 'line', 'grid', 'accent', 'warn', 'hatch', 'free', 'reserved', 'shade'])
    theme[name] = get('--' + name);
  for (let g = 0; g < 12; g++) theme.groups.push(get('--g' + g));
}

const colour = g => grouping.others && g === grouping.groups - 1 ? theme.groups[11] : theme.groups[g % 12];

function instantText(event) {
  if (s.n === 0) return 'no events';
  const text = `event ${count(event)} of ${count(s.n)}`;
  return s.raw.timed ? `${text} · ${duration(s.times.of(event))}` : text;
}

/* A canvas as large as it is on the screen; drawing is in CSS pixels. */
function prepare(canvas, height) {
  const scale = Math.min(2, window.devicePixelRatio || 1), width = canvas.clientWidth || 600;
  const tall = height || canvas.clientHeight;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(tall * scale);
  const g = canvas.getContext('2d');
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.font = '12px system-ui, "DejaVu Sans", sans-serif';
  return {g, width, height: tall};
}

let pending = 0;
const dirty = {chart: false, over: false, map: false, table: false};
function redraw(...parts) {
  for (const part of parts) dirty[part] = true;
  if (!pending) pending = requestAnimationFrame(() => { pending = 0; drawDirty(); });
}

function drawDirty() {
  if (dirty.chart) drawChart();
  if (dirty.chart || dirty.over) drawOver();
  if (dirty.map) drawMap();
  if (dirty.table) drawTable();
  for (const part in dirty) dirty[part] = false;
}

/* ---- memory over time ----------------------------------------------------------------------- */

const EDGE = {left: 74, right: 14, top: 26, bottom: 24};

/*
 * Columns of a view: for each the largest sum in it (total), what the groups held then (groups),
 * the event, the least sum, the reserved memory.
 */
function makeColumns(from, to, width) {
  const k = grouping.groups, c = {
    width, total: new Float64Array(width).fill(-1), least: new Float64Array(width).fill(Infinity),
    groups: new Float64Array(width * k), event: new Int32Array(width), reserved: new Float64Array(width), exact: false,
  };
  if (s.n === 0) return c;
  const scale = width / (to - from), first = eventAt(from), last = eventAt(to);
  const put = (x0, x1, event, total, least, values, offset) => {
    const begin = Math.max(0, Math.floor((x0 - from) * scale));
    const end = Math.min(width - 1, Math.max(begin, Math.ceil((x1 - from) * scale) - 1));
    for (let x = begin; x <= end; x++) {
      if (least < c.least[x]) c.least[x] = least;
      if (total <= c.total[x]) continue;
      c.total[x] = total;
      c.event[x] = event;
      for (let g = 0; g < k; g++) c.groups[x * k + g] = values[offset + g];
    }
  };
  if (s.complete && last - first <= EXACT_EVENTS) {
    c.exact = true;
    const now = groupsAt(s, grouping, first), b = s.blocks;
    let total = now.reduce((sum, value) => sum + value, 0);
    for (let e = first, x = place(first); e <= last; e++) {
      const change = e > first ? s.change[e] : 0, block = Math.abs(change) - 1;
      if (change !== 0) {
        const bytes = change > 0 ? b.taken[block] : -b.taken[block];
        now[grouping.ofSite[b.site[block]]] += bytes;
        total += bytes;
      }
      const next = place(e + 1);
      put(x, next, e, total, total, now, 0);
      x = next;
    }
  } else {
    const step = s.raw.bin_events;
    for (let i = Math.floor(first / step); i <= Math.floor(last / step); i++)
      put(place(i * step), place(Math.min(s.n, (i + 1) * step)), s.bins.event[i], s.bins.bytes[i], s.bins.least[i], grouping.bins, i * k);
  }
  const steps = s.steps;
  for (let i = Math.max(0, above(steps.event, first) - 1); i < steps.n && steps.event[i] <= last; i++) {
    const x0 = place(Math.max(0, steps.event[i])), x1 = i + 1 < steps.n ? place(steps.event[i + 1]) : to;
    const begin = Math.max(0, Math.floor((x0 - from) * scale));
    const end = Math.min(width - 1, Math.max(begin, Math.ceil((x1 - from) * scale) - 1));
    for (let x = begin; x <= end; x++) if (steps.bytes[i] > c.reserved[x]) c.reserved[x] = steps.bytes[i];
  }
  return c;
}

function niceStep(span, wanted, binary) {
  const unit = binary ? 1024 ** Math.floor(Math.log(Math.max(1, span)) / Math.log(1024)) : 1;
  const rough = span / unit / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(m => m * power >= rough) * power;
  return Math.max(binary ? 1 : 1e-9, step * unit);
}

/* A size in the unit of the largest, with as many digits as steps need. */
function sizeIn(bytes, most, step) {
  const unit = Math.min(UNITS.length, Math.floor(Math.log(most) / Math.log(1024)));
  const digits = Math.max(0, Math.min(3, Math.ceil(-Math.log10(step / 1024 ** unit) - 1e-9)));
  return (bytes / 1024 ** unit).toFixed(digits) + ' ' + (unit > 0 ? UNITS[unit - 1] : 'B');
}

function drawAxes(g, box, top) {
  g.strokeStyle = theme.grid;
  g.fillStyle = theme.soft;
  g.textAlign = 'right';
  g.textBaseline = 'middle';
  g.lineWidth = 1;
  const step = niceStep(top, box.height / 50, true);
  for (let bytes = 0; bytes <= top; bytes += step) {
    const y = Math.round(box.y(bytes)) + .5;
    g.beginPath();
    g.moveTo(box.left, y);
    g.lineTo(box.right, y);
    g.stroke();
    g.fillText(bytes === 0 ? '0' : sizeIn(bytes, top, step), box.left - 8, y);
  }
  g.textAlign = 'center';
  g.textBaseline = 'top';
  const span = view[1] - view[0];
  const xStep = axis === 'event' ? Math.max(1, niceStep(span, box.width / 130)) : niceStep(span, box.width / 130);
  for (let x = Math.ceil(view[0] / xStep) * xStep; x <= view[1]; x += xStep) {
    const text = axis === 'event' || !s.raw.timed ? count(x) : x === 0 ? '0' : duration(x).replace(/\.0+ |(\.\d*?[1-9])0+ /, '$1 ');
    const half = g.measureText(text).width / 2;
    g.fillText(text, Math.min(box.x(x), box.right + EDGE.right - half), box.bottom + 7);
  }
}

/* The stack, from the top group's edge down: each area covers all below it, so no seams show. */
function drawStack(g, box, c, scale) {
  const k = grouping.groups, sum = Float64Array.from(c.total);
  for (let group = k - 1; group >= 0; group--) {
    g.fillStyle = colour(group);
    g.globalAlpha = lit >= 0 && lit !== group ? .22 : 1;
    if (lit >= 0) { /* a fainter area would let others shine through */
      const keep = g.fillStyle;
      g.globalAlpha = 1;
      g.fillStyle = theme.panel;
      fillTo(g, box, sum, scale);
      g.globalAlpha = lit !== group ? .22 : 1;
      g.fillStyle = keep;
    }
    fillTo(g, box, sum, scale);
    for (let x = 0; x < c.width; x++) sum[x] -= c.groups[x * k + group];
  }
  g.globalAlpha = 1;
}

function fillTo(g, box, sum, scale) {
  g.beginPath();
  g.moveTo(box.left, box.bottom);
  for (let x = 0; x < sum.length; x++) {
    const y = box.y(Math.max(0, sum[x]));
    g.lineTo(box.left + x / scale, y);
    g.lineTo(box.left + (x + 1) / scale, y);
  }
  g.lineTo(box.right, box.bottom);
  g.fill();
}

function strokeSteps(g, box, values, scale) {
  g.beginPath();
  for (let x = 0; x < values.length; x++) {
    const y = box.y(values[x]);
    if (x === 0) g.moveTo(box.left, y);
    else g.lineTo(box.left + x / scale, y);
    g.lineTo(box.left + (x + 1) / scale, y);
  }
  g.stroke();
}

/* A note at the top of the picture; true when there was room for it. */
function note(g, box, x, text, ink, taken) {
  const width = g.measureText(text).width + 10;
  const fits = at => at >= box.left && at + width <= box.right && !taken.some(([a, b]) => at < b + 4 && at + width > a - 4);
  const wanted = Math.max(box.left, Math.min(box.right - width, x - width / 2));
  const left = [wanted, ...taken.flatMap(([a, b]) => [b + 5, a - width - 5])].find(at => fits(at) && Math.abs(at - wanted) < width * 1.5);
  if (left === undefined) return false;
  taken.push([left, left + width]);
  g.fillStyle = theme.panel;
  g.fillRect(left, 3, width, 18);
  g.strokeStyle = ink;
  g.lineWidth = 1;
  g.strokeRect(left + .5, 3.5, width - 1, 17);
  g.fillStyle = ink;
  g.textAlign = 'left';
  g.textBaseline = 'middle';
  g.fillText(text, left + 5, 12.5);
  return true;
}

function rule(g, box, x, ink, dash) {
  g.strokeStyle = ink;
  g.setLineDash(dash);
  g.beginPath();
  g.moveTo(Math.round(x) + .5, 21);
  g.lineTo(Math.round(x) + .5, box.bottom);
  g.stroke();
  g.setLineDash([]);
}

function drawNotes(g, box) {
  const taken = [], inView = event => place(event) >= view[0] && place(event) <= view[1];
  const peak = s.raw.peak_event;
  if (peak >= 0 && inView(peak)) {
    rule(g, box, box.x(place(peak)), theme.ink, [4, 3]);
    note(g, box, box.x(place(peak)), 'peak ' + size(s.raw.peak_bytes), theme.ink, taken);
  }
  for (const failure of s.raw.failures) {
    if (!inView(failure.event)) continue;
    rule(g, box, box.x(place(failure.event)), theme.warn, []);
    note(g, box, box.x(place(failure.event)), 'failed: ' + size(failure.asked), theme.warn, taken);
  }
  for (const mark of s.raw.marks) {
    if (!inView(mark.event)) continue;
    const x = box.x(place(mark.event));
    if (note(g, box, x, s.raw.strings[mark.label], theme.soft, taken)) rule(g, box, x, theme.faint, [1, 3]);
  }
}

function chartBox(width, height, top) {
  const left = EDGE.left, right = width - EDGE.right, bottom = height - EDGE.bottom;
  return {
    left, right, bottom, width: right - left, height: bottom - EDGE.top,
    x: at => left + (at - view[0]) / (view[1] - view[0]) * (right - left),
    y: bytes => bottom - bytes / top * (bottom - EDGE.top),
    back: x => view[0] + (x - left) / (right - left) * (view[1] - view[0]),
  };
}

let box = null;

function drawChart() {
  const {g, width, height} = prepare($('chart'));
  const scale = Math.min(2, window.devicePixelRatio || 1);
  const wide = Math.max(1, Math.round((width - EDGE.left - EDGE.right) * scale));
  columns = makeColumns(view[0], view[1], wide);
  const reserved = $('show-reserved').checked;
  let top = 1;
  for (let x = 0; x < wide; x++) {
    top = Math.max(top, columns.total[x]);
    if (reserved) top = Math.max(top, columns.reserved[x]);
  }
  top *= 1.03;
  box = chartBox(width, height, top);
  const real = (box.right - box.left) * scale / wide * scale;
  g.clearRect(0, 0, width, height);
  drawAxes(g, box, top);
  g.save();
  g.beginPath();
  g.rect(box.left, 0, box.width, box.bottom);
  g.clip();
  drawStack(g, box, columns, real);
  if (columns.least.some((least, x) => columns.total[x] > least)) {
    g.strokeStyle = theme.panel;
    g.globalAlpha = .75;
    g.lineWidth = 1;
    strokeSteps(g, box, columns.least, real);
    g.globalAlpha = 1;
  }
  if (reserved) {
    g.strokeStyle = theme.reserved;
    g.lineWidth = 1.6;
    strokeSteps(g, box, columns.reserved, real);
  }
  g.restore();
  g.strokeStyle = theme.faint;
  g.lineWidth = 1;
  g.strokeRect(box.left - .5, box.bottom + .5, box.width + 1, 0);
  drawNotes(g, box);
  drawOverview();
}

let overviewColumns = null, overviewKey = '';

function drawOverview() {
  const {g, width, height} = prepare($('overview'));
  const left = EDGE.left, wide = Math.max(1, Math.floor(width - EDGE.left - EDGE.right)), whole = wholeView();
  const key = [s.name, axis, grouping.title, wide].join();
  if (key !== overviewKey) {
    overviewColumns = makeColumns(whole[0], whole[1], wide);
    overviewKey = key;
  }
  const most = Math.max(1, s.raw.peak_bytes, s.raw.reserved_peak_bytes);
  g.fillStyle = theme.grid;
  g.fillRect(left, 0, wide, height);
  g.fillStyle = theme.faint;
  for (let x = 0; x < wide; x++) {
    const tall = Math.max(0, overviewColumns.total[x]) / most * (height - 4);
    g.fillRect(left + x, height - tall, 1, tall);
  }
  g.fillStyle = theme.ink;
  for (let x = 0; x < wide; x++) g.fillRect(left + x, height - overviewColumns.reserved[x] / most * (height - 4) - 1, 1, 1);
  const at = x => left + (x - whole[0]) / (whole[1] - whole[0]) * wide;
  g.fillStyle = theme.shade;
  g.fillRect(left, 0, at(view[0]) - left, height);
  g.fillRect(at(view[1]), 0, left + wide - at(view[1]), height);
  g.strokeStyle = theme.accent;
  g.lineWidth = 2;
  g.strokeRect(at(view[0]) + 1, 1, Math.max(2, at(view[1]) - at(view[0]) - 2), height - 2);
}

/* ---- over the picture: the chosen instant, the pointer, a block's life ----------------------- */

let pointer = null; /* {x, y} in the picture, while the mouse is over it */
let drag = null;    /* {from, to, pan} */
let hovered = null; /* {event, block, group} */

/*
 * The band of a block in the stack, over its whole life. Below it lie the groups below, and the
 * older blocks of its group: those that lived when it was born, each until it dies.
 */
function drawBand(g, block, group) {
  const b = s.blocks, k = grouping.groups, c = columns;
  const first = above(c.event, b.birth[block] - 1), last = above(c.event, b.death[block] - 1);
  const floors = new Float64Array(c.width + 1);
  for (const older of liveAt(s, b.birth[block])) {
    if (older >= block || grouping.ofSite[b.site[older]] !== group) continue;
    floors[first] += b.taken[older];
    floors[Math.max(first, above(c.event, b.death[older] - 1))] -= b.taken[older];
  }
  const low = [], high = [];
  let floor = 0;
  for (let x = first; x < last; x++) {
    floor += floors[x];
    let below = floor;
    for (let i = 0; i < group; i++) below += c.groups[x * k + i];
    for (let side = 0; side < 2; side++) {
      const at = box.left + (x + side) / c.width * box.width;
      low.push([at, box.y(below)]);
      high.push([at, box.y(below + b.taken[block])]);
    }
  }
  g.beginPath();
  for (const [x, y] of low.concat(high.reverse())) g.lineTo(x, y);
  g.closePath();
  g.fillStyle = theme.ink;
  g.globalAlpha = .35;
  g.fill();
  g.globalAlpha = 1;
  g.strokeStyle = theme.ink;
  g.lineWidth = 1;
  g.stroke();
}

function drawOver() {
  const {g, width, height} = prepare($('chart-over'));
  g.clearRect(0, 0, width, height);
  if (!box || s.n === 0) return;
  g.save();
  g.beginPath();
  g.rect(box.left, 0, box.width, height);
  g.clip();
  if (hovered && hovered.block >= 0) {
    const b = s.blocks, x0 = box.x(place(b.birth[hovered.block])), x1 = box.x(place(b.death[hovered.block]));
    g.fillStyle = theme.shade;
    g.fillRect(x0, EDGE.top, Math.max(1, x1 - x0), box.bottom - EDGE.top);
    drawBand(g, hovered.block, hovered.group);
  }
  const x = box.x(place(chosen));
  rule(g, box, x, theme.accent, []);
  g.fillStyle = theme.accent;
  g.beginPath();
  g.moveTo(x - 6, box.bottom + 9);
  g.lineTo(x + 6, box.bottom + 9);
  g.lineTo(x, box.bottom);
  g.fill();
  if (pointer && !drag) rule(g, box, pointer.x, theme.faint, [2, 2]);
  if (drag && !drag.pan) {
    g.fillStyle = theme.shade;
    g.fillRect(Math.min(drag.from, drag.to), EDGE.top, Math.abs(drag.to - drag.from), box.bottom - EDGE.top);
  }
  g.restore();
}

/* The block under a place of the picture: groups from the bottom, in each the oldest first. */
function blockUnder(x, y) {
  const column = Math.max(0, Math.min(columns.width - 1, Math.floor((x - box.left) / box.width * columns.width)));
  const event = columns.event[column], k = grouping.groups;
  const bytes = (box.bottom - y) / (box.bottom - box.y(1));
  const found = {event, block: -1, group: -1};
  let floor = 0;
  if (bytes < 0) return found;
  for (let group = 0; group < k; group++) {
    const held = columns.groups[column * k + group];
    if (bytes < floor + held) {
      found.group = group;
      break;
    }
    floor += held;
  }
  if (found.group < 0) return found;
  for (const block of liveAt(s, event)) {
    if (grouping.ofSite[s.blocks.site[block]] !== found.group) continue;
    const next = floor + s.blocks.taken[block];
    if (bytes < next) return Object.assign(found, {block});
    floor = next;
  }
  return found;
}

/* The stream and the pool, where they are not the usual ones. */
function whereabouts(at) {
  const queue = s.raw.recorded ? 'stream' : 'queue';
  return (at.queue ? ` · ${queue} ${at.queue}` : '') + (at.pool ? ` · pool ${at.pool}` : '');
}

function blockStory(block) {
  const b = s.blocks, site = s.sites[b.site[block]], lines = [];
  lines.push(element('b', {text: shorten(site.label)}));
  const facts = [size(b.taken[block])];
  if (b.asked[block] !== b.taken[block]) facts[0] += ` (asked ${size(b.asked[block])})`;
  if (site.shape.length) facts.push(`[${site.shape.join(', ')}] ${site.dtype}`);
  if (site.role) facts.push(site.role);
  lines.push(element('div', {text: facts.join(' · ')}));
  const life = [`born at event ${count(b.birth[block])}`];
  life.push(b.death[block] < s.n ? `dies at event ${count(b.death[block])}` : 'lives at the end');
  if (s.raw.timed && b.death[block] < s.n)
    life.push(`lives ${duration(s.times.of(b.death[block]) - s.times.of(b.birth[block]))}`);
  lines.push(element('div', {class: 'soft', text: life.join(' · ')}));
  if (b.death[block] - b.letGo[block] > 1) /* at once is one event later */
    lines.push(element('div', {text: `let go at event ${count(b.letGo[block])}, then held for another stream`}));
  if (site.made) lines.push(element('div', {class: 'soft', text: 'made by ' + site.made}));
  if (site.kept.length) lines.push(element('div', {class: 'soft', text: 'kept for ' + site.kept.join(', ')}));
  if (site.stack.length && site.name) lines.push(element('div', {class: 'soft', text: site.name}));
  lines.push(element('div', {class: 'soft', text: `address 0x${b.address[block].toString(16)}${whereabouts(site)}`}));
  if (site.stack.length)
    lines.push(element('ol', {}, ...site.stack.slice(0, 9).map(frame => element('li', {text: s.frames[frame]}))));
  return lines;
}

function showTip(event, ...lines) {
  const tip = $('tip');
  tip.replaceChildren(...lines.filter(line => line !== null));
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect(), gap = 16;
  const left = event.clientX + gap + width < innerWidth ? event.clientX + gap : event.clientX - gap - width;
  tip.style.left = Math.max(4, left) + 'px';
  tip.style.top = Math.max(4, Math.min(innerHeight - height - 4, event.clientY + gap)) + 'px';
}

const hideTip = () => { $('tip').hidden = true; };

function hoverChart(event) {
  if (s.n === 0) return;
  const area = $('chart').getBoundingClientRect();
  pointer = {x: event.clientX - area.left, y: event.clientY - area.top};
  if (pointer.x < box.left || pointer.x > box.right) return leaveChart();
  hovered = blockUnder(pointer.x, pointer.y);
  const head = element('div', {class: 'soft', text: instantText(hovered.event)});
  if (hovered.block >= 0) showTip(event, ...blockStory(hovered.block), head);
  else if (hovered.group >= 0) showTip(event, element('b', {text: 'small blocks of ' + shorten(grouping.labels[hovered.group])}), head);
  else showTip(event, head, element('div', {text: `live ${size(columnTotal(pointer.x))} · reserved ${size(reservedAt(s, hovered.event))}`}));
  drawLegend(hovered.event);
  redraw('over');
}

function columnTotal(x) {
  const column = Math.max(0, Math.min(columns.width - 1, Math.floor((x - box.left) / box.width * columns.width)));
  return Math.max(0, columns.total[column]);
}

function leaveChart() {
  pointer = hovered = null;
  hideTip();
  drawLegend(chosen);
  redraw('over');
}

/* ---- moving about ----------------------------------------------------------------------------- */

function setView(from, to) {
  const whole = wholeView(), least = axis === 'event' ? Math.min(8, s.n) : whole[1] / 1e7;
  let span = Math.max(least, Math.min(whole[1] - whole[0], to - from));
  if (!s.complete && axis === 'event') span = Math.max(span, Math.min(whole[1], 8 * s.raw.bin_events));
  from = Math.max(whole[0], Math.min(whole[1] - span, from + (to - from - span) / 2));
  view = [from, from + span];
  redraw('chart');
}

function zoom(factor, around) {
  const at = around === undefined ? (view[0] + view[1]) / 2 : around;
  setView(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
}

function choose(event) {
  if (s.n === 0) return;
  chosen = Math.max(0, Math.min(s.n - 1, Math.round(event)));
  $('slider').value = chosen;
  $('slider').setAttribute('aria-valuetext', instantText(chosen));
  drawLegend(chosen);
  redraw('over', 'map');
  if (tab.instant) redraw('table');
}

function zoomToPeak() {
  const span = (wholeView()[1] - wholeView()[0]) / 20, at = place(s.start);
  choose(s.start);
  setView(at - span / 2, at + span / 2);
}

function listenToChart() {
  const chart = $('chart');
  chart.addEventListener('wheel', event => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = event.deltaX / box.width * (view[1] - view[0]);
      setView(view[0] + shift, view[1] + shift);
    } else {
      zoom(1.0018 ** event.deltaY, box.back(event.clientX - chart.getBoundingClientRect().left));
    }
  }, {passive: false});
  chart.addEventListener('pointerdown', event => {
    const x = event.clientX - chart.getBoundingClientRect().left;
    drag = {from: x, to: x, pan: event.shiftKey || event.button === 1, view: view.slice()};
    chart.setPointerCapture(event.pointerId);
    hideTip();
  });
  chart.addEventListener('pointermove', event => {
    if (!drag) return hoverChart(event);
    drag.to = event.clientX - chart.getBoundingClientRect().left;
    if (drag.pan) {
      const shift = (drag.from - drag.to) / box.width * (drag.view[1] - drag.view[0]);
      setView(drag.view[0] + shift, drag.view[1] + shift);
    }
    redraw('over');
  });
  chart.addEventListener('pointerup', () => {
    if (!drag) return;
    const {from, to, pan} = drag;
    drag = null;
    if (!pan && Math.abs(to - from) > 4) setView(box.back(Math.min(from, to)), box.back(Math.max(from, to)));
    else if (!pan && columns) choose(blockUnder(to, box.bottom).event);
    redraw('over');
  });
  chart.addEventListener('pointercancel', () => { drag = null; redraw('over'); });
  chart.addEventListener('pointerleave', leaveChart);
  chart.addEventListener('dblclick', () => setView(...wholeView()));
  chart.addEventListener('keydown', event => {
    const span = view[1] - view[0], shift = part => setView(view[0] + part * span, view[1] + part * span);
    const keys = {
      ArrowLeft: () => shift(-.15), ArrowRight: () => shift(.15), PageUp: () => shift(-.9), PageDown: () => shift(.9),
      '+': () => zoom(.6, place(chosen)), '=': () => zoom(.6, place(chosen)), '-': () => zoom(1 / .6, place(chosen)),
      ArrowUp: () => zoom(.6, place(chosen)), ArrowDown: () => zoom(1 / .6, place(chosen)),
      '0': () => setView(...wholeView()), Home: () => setView(...wholeView()), p: zoomToPeak,
      '[': () => choose(chosen - 1), ']': () => choose(chosen + 1),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  const overview = $('overview');
  const move = event => {
    const area = overview.getBoundingClientRect(), whole = wholeView(), span = view[1] - view[0];
    const at = whole[0] + (event.clientX - area.left - EDGE.left) / (area.width - EDGE.left - EDGE.right) * (whole[1] - whole[0]);
    setView(at - span / 2, at + span / 2);
  };
  overview.addEventListener('pointerdown', event => { overview.setPointerCapture(event.pointerId); move(event); });
  overview.addEventListener('pointermove', event => { if (event.buttons) move(event); });
}

/* ---- the legend -------------------------------------------------------------------------------- */

let legendRows = [];

function makeLegend() {
  const list = $('legend');
  legendRows = [];
  for (let g = grouping.groups - 1; g >= 0; g--) {
    const bytes = element('span', {class: 'bytes'});
    const swatch = element('span', {class: 'swatch'});
    swatch.style.background = colour(g);
    const row = element('li', {title: grouping.labels[g], onmouseenter: () => light(g), onmouseleave: () => light(-1)},
      swatch, element('span', {class: 'name', text: shorten(grouping.labels[g])}), bytes);
    legendRows.push({g, bytes, row});
  }
  list.replaceChildren(...legendRows.map(row => row.row));
}

function light(group) {
  lit = group;
  redraw('chart');
}

function drawLegend(event) {
  const sums = groupsAt(s, grouping, event);
  let live = 0;
  for (const row of legendRows) {
    live += sums[row.g];
    row.bytes.textContent = sums[row.g] > 0 ? size(sums[row.g]) : '–';
    row.row.classList.toggle('on', hovered !== null && hovered.group === row.g);
  }
  const reserved = reservedAt(s, event);
  $('legend-at').textContent = (event === chosen && !hovered ? 'Chosen: ' : 'Here: ') + instantText(event);
  $('legend-sum').replaceChildren(...[['live', live], ['reserved', reserved], ['not live', reserved - live]].flatMap(
    ([name, bytes]) => [element('span', {text: name}), element('span', {text: bytes < 0 ? '–' : size(bytes)})]));
}
