/* SPDX-License-Identifier: MIT */
/*
 * The page at work. Data come from one JSON text, written by page_source.c; its long lists are
 * packed numbers in base64. A *source* (a GPU, a rank, a plan) is read when it is first shown.
 *
 * Time is counted in events: the state "at event e" is what holds right after it. Pictures are
 * made of columns, one a pixel: each shows the instant in it at which most was live. Far out,
 * columns come from the bins that were summed when the page was written; near, from the blocks.
 */
'use strict';
(() => {

const $ = id => document.getElementById(id);
const data = JSON.parse($('data').textContent);
const EXACT_EVENTS = 150000; /* a view of fewer is drawn from the blocks themselves */
const CHECKPOINT = 4096;     /* events between two remembered sums */

/* ---- numbers and words -------------------------------------------------------------------- */

function reader(base64) {
  const letters = atob(base64), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  let at = 0;
  const next = () => {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  };
  const signed = () => {
    const folded = next();
    return folded % 2 ? -(folded + 1) / 2 : folded / 2;
  };
  return {next, signed, get left() { return bytes.length - at; }};
}

const count = n => Math.round(n).toLocaleString('en-US');
const UNITS = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

function size(bytes) {
  if (Math.abs(bytes) < 1024) return count(bytes) + ' B';
  let unit = -1;
  while (Math.abs(bytes) >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return bytes.toFixed(unit < 2 ? 1 : 2) + ' ' + UNITS[unit];
}

const share = (part, whole) => whole > 0 ? (100 * part / whole).toFixed(part / whole < .1 ? 1 : 0) + ' %' : '';

function duration(ns) {
  const rows = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];
  for (const [scale, unit] of rows)
    if (Math.abs(ns) >= scale) return (ns / scale).toPrecision(4) + ' ' + unit;
  return count(ns) + ' ns';
}

/* Parts of a path that tell where it is: the last two. */
function shorten(label) {
  return label.replace(/(\S*\/)(?=[^/\s]+\/[^/\s]+$)/, '');
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === 'text') made.textContent = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

/* The first place in a sorted list whose value is above `value`. */
function above(list, value, length) {
  let low = 0, high = length === undefined ? list.length : length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* ---- a source ------------------------------------------------------------------------------ */

function readSites(raw) {
  const r = reader(raw.sites), sites = [];
  for (let i = 0; i <= raw.site_count; i++) {
    const site = {index: i, role: r.next() - 1, dtype: r.next() - 1, shape: [], kept: [], stack: []};
    for (let rank = r.next(); rank > 0; rank--) site.shape.push(r.next());
    site.name = raw.strings[r.next()];
    site.layer = raw.strings[r.next()];
    site.op = raw.strings[r.next()];
    site.made = raw.strings[r.next()];
    for (let k = 0; k < 4; k++) {
      const kept = raw.strings[r.next()];
      if (kept) site.kept.push(kept);
    }
    site.queue = r.next();
    site.pool = r.next();
    const unknown = raw.unknown[r.next()];
    for (let depth = r.next(); depth > 0; depth--) site.stack.push(r.next() - 1);
    for (const key of ['times', 'total', 'largest', 'peakCount', 'peak', 'endCount', 'end'])
      site[key] = r.next();
    site.role = site.role < 0 ? '' : raw.roles[site.role];
    site.dtype = site.dtype < 0 ? '' : raw.dtypes[site.dtype];
    site.rest = i === raw.site_count;
    site.label = site.rest ? 'all other sites'
      : site.stack.length && site.op ? site.op
      : [site.layer, site.name || site.op].filter(Boolean).join(' ') || site.role || unknown;
    sites.push(site);
  }
  if (raw.sites_left_out === 0) sites.pop();
  return sites;
}

function readFrames(raw) {
  const r = reader(raw.frames), frames = [];
  while (r.left > 0) {
    const name = raw.strings[r.next()], file = raw.strings[r.next()], line = r.next();
    frames.push(line ? `${name}  ${file}:${line}` : `${name}  ${file}`);
  }
  return frames;
}

function readBlocks(raw) {
  const n = raw.block_count, r = reader(raw.blocks);
  const blocks = {
    n, birth: new Int32Array(n), death: new Int32Array(n), taken: new Float64Array(n),
    asked: new Float64Array(n), site: new Int32Array(n), address: new Float64Array(n),
  };
  let birth = 0, address = 0;
  for (let i = 0; i < n; i++) {
    birth += r.next();
    const life = r.next();
    blocks.birth[i] = birth;
    blocks.death[i] = life === 0 ? raw.event_count : birth + life;
    blocks.taken[i] = r.next();
    blocks.asked[i] = blocks.taken[i] - r.next();
    blocks.site[i] = r.next();
    address += r.signed();
    blocks.address[i] = address;
  }
  return blocks;
}

function readGrouping(raw, grouping, sites) {
  const groups = grouping.labels.length, n = raw.bin_count;
  const r = reader(grouping.group_of_site), ofSite = new Uint8Array(raw.site_count + 1);
  for (let i = 0; i < ofSite.length; i++) ofSite[i] = r.next();
  const values = reader(grouping.bins), bins = new Float64Array(n * groups), last = new Float64Array(groups);
  for (let i = 0; i < n; i++)
    for (let g = 0; g < groups; g++) bins[i * groups + g] = last[g] += values.signed();
  return {title: grouping.title, labels: grouping.labels, others: grouping.others, groups, ofSite, bins, sums: null};
}

function readSegments(raw) {
  const r = reader(raw.segments), segments = [];
  let address = 0;
  for (let i = 0; i < raw.segment_count; i++) {
    const birth = r.next() - 1, death = r.next() - 1, bytes = r.next();
    address += r.signed();
    segments.push({address, bytes, birth, death: death < 0 ? raw.event_count : death, queue: r.next(), pool: r.next(), expandable: r.next() === 1});
  }
  return segments.sort((a, b) => a.address - b.address);
}

function readBins(raw) {
  const n = raw.bin_count, r = reader(raw.bins);
  const bins = {n, event: new Int32Array(n), bytes: new Float64Array(n), least: new Float64Array(n)};
  let bytes = 0, least = 0;
  for (let i = 0; i < n; i++) {
    bins.event[i] = i * raw.bin_events + r.next();
    bins.bytes[i] = bytes += r.signed();
    bins.least[i] = least += r.signed();
    r.signed();
  }
  return bins;
}

function readSteps(raw) {
  const n = raw.reserved_count, r = reader(raw.reserved);
  const steps = {n, event: new Int32Array(n), bytes: new Float64Array(n)};
  let event = -1, bytes = 0;
  for (let i = 0; i < n; i++) {
    steps.event[i] = event += r.next();
    steps.bytes[i] = bytes += r.signed();
  }
  return steps;
}

/* Times of events in nanoseconds from the first; between two that are told, a straight line. */
function readTimes(raw) {
  const r = reader(raw.times), stride = raw.time_events, times = [];
  let time = 0;
  while (r.left > 0) times.push(time += r.next());
  const last = times.length ? times.pop() : 0;
  const list = Float64Array.from(times), n = raw.event_count;
  const end = last + Math.max(1, last * 1e-3);
  const of = event => {
    if (event >= n) return end;
    const place = Math.floor(event / stride), rest = event - place * stride;
    if (rest === 0) return list[place];
    const to = place + 1 < list.length ? list[place + 1] : last;
    return list[place] + (to - list[place]) * rest / stride;
  };
  const at = time => { /* the last event that is not after `time` */
    const place = Math.max(0, above(list, time) - 1);
    if (stride === 1) return place;
    let low = place * stride, high = Math.min(n - 1, low + stride - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (of(middle) <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  return {of, at, end};
}

function readSource(raw) {
  const s = {raw, n: raw.event_count, name: raw.name};
  s.sites = readSites(raw);
  s.frames = readFrames(raw);
  s.blocks = readBlocks(raw);
  s.bins = readBins(raw);
  s.steps = readSteps(raw);
  s.times = readTimes(raw);
  s.segments = readSegments(raw);
  s.groupings = raw.groupings.map(grouping => readGrouping(raw, grouping, s.sites));
  s.complete = raw.smallest_block === 0;
  s.change = new Int32Array(s.n); /* block + 1 that an event brings, -(block + 1) that it ends */
  for (let i = 0; i < s.blocks.n; i++) {
    s.change[s.blocks.birth[i]] = i + 1;
    if (s.blocks.death[i] < s.n) s.change[s.blocks.death[i]] = -(i + 1);
  }
  s.start = raw.peak_event < 0 ? Math.max(0, s.n - 1) : raw.peak_event;
  return s;
}

/* What each group held before event k * CHECKPOINT, for complete sources. */
function sumsOf(s, grouping) {
  if (grouping.sums) return grouping.sums;
  const {groups, ofSite} = grouping, b = s.blocks, now = new Float64Array(groups);
  const sums = new Float64Array((Math.floor(s.n / CHECKPOINT) + 1) * groups);
  for (let e = 0; e < s.n; e++) {
    if (e % CHECKPOINT === 0) sums.set(now, e / CHECKPOINT * groups);
    const change = s.change[e];
    if (change > 0) now[ofSite[b.site[change - 1]]] += b.taken[change - 1];
    else if (change < 0) now[ofSite[b.site[-change - 1]]] -= b.taken[-change - 1];
  }
  return grouping.sums = sums;
}

/* Blocks that live right after an event, the oldest first. */
function liveAt(s, event) {
  const b = s.blocks, end = above(b.birth, event), live = [];
  for (let i = 0; i < end; i++) if (b.death[i] > event) live.push(i);
  return live;
}

function reservedAt(s, event) {
  return s.steps.n ? s.steps.bytes[Math.max(0, above(s.steps.event, event) - 1)] : 0;
}

/* Sums by group right after an event: exact where all blocks are told, else the bin's. */
function groupsAt(s, grouping, event) {
  const sums = new Float64Array(grouping.groups);
  if (s.n === 0) return sums;
  if (!s.complete) {
    const bin = Math.min(s.bins.n - 1, Math.floor(event / s.raw.bin_events));
    return grouping.bins.slice(bin * grouping.groups, (bin + 1) * grouping.groups);
  }
  const b = s.blocks, from = Math.floor(event / CHECKPOINT);
  sums.set(sumsOf(s, grouping).subarray(from * grouping.groups, (from + 1) * grouping.groups));
  for (let e = from * CHECKPOINT; e <= event; e++) {
    const change = s.change[e];
    if (change > 0) sums[grouping.ofSite[b.site[change - 1]]] += b.taken[change - 1];
    else if (change < 0) sums[grouping.ofSite[b.site[-change - 1]]] -= b.taken[-change - 1];
  }
  return sums;
}

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
  for (let x = Math.ceil(view[0] / xStep) * xStep; x <= view[1]; x += xStep)
    g.fillText(axis === 'event' ? count(x) : s.raw.timed ? (x === 0 ? '0' : duration(x)) : count(x), box.x(x), box.bottom + 7);
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
  if (site.made) lines.push(element('div', {class: 'soft', text: 'made by ' + site.made}));
  if (site.kept.length) lines.push(element('div', {class: 'soft', text: 'kept for ' + site.kept.join(', ')}));
  if (site.stack.length && site.name) lines.push(element('div', {class: 'soft', text: site.name}));
  lines.push(element('div', {class: 'soft', text: `address 0x${b.address[block].toString(16)} · queue ${site.queue} · pool ${site.pool}`}));
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

/* ---- segments at one instant --------------------------------------------------------------------- */

const MAP = {row: 22, gap: 7, space: 3};
let placed = null; /* what the map shows: {segments, parts} */

/* Segments that are there at an event, neighbours of an expandable one joined, with their blocks. */
function segmentsAt(event) {
  const there = [];
  for (const segment of s.segments) {
    if (segment.birth > event || segment.death <= event) continue;
    const last = there[there.length - 1];
    if (last && last.expandable && segment.expandable && last.address + last.bytes === segment.address && last.queue === segment.queue) {
      last.bytes += segment.bytes;
      continue;
    }
    there.push({...segment, blocks: [], live: 0});
  }
  const b = s.blocks, live = liveAt(s, event).sort((i, k) => b.address[i] - b.address[k]);
  let at = 0;
  for (const block of live) {
    while (at < there.length && there[at].address + there[at].bytes <= b.address[block]) at++;
    if (at === there.length) break;
    if (b.address[block] < there[at].address) continue;
    there[at].blocks.push(block);
    there[at].live += b.taken[block];
  }
  for (const segment of there) {
    segment.free = Math.max(0, segment.bytes - segment.live);
    segment.pinned = segment.live > 0 && segment.free * 2 > segment.bytes && there.length > 1;
    let end = segment.address;
    segment.hole = 0;
    for (const block of segment.blocks) {
      segment.hole = Math.max(segment.hole, b.address[block] - end);
      end = Math.max(end, b.address[block] + b.taken[block]);
    }
    segment.hole = Math.max(segment.hole, segment.address + segment.bytes - end);
  }
  return there;
}

/* Lays segments along rows like words along lines; one that does not fit goes on in the next row. */
function layMap(segments, width) {
  const total = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  const rows = Math.max(5, Math.min(22, Math.round(Math.sqrt(segments.length) * 2)));
  const usable = Math.max(width, rows * width - segments.length * (MAP.space + 2));
  const scale = usable / Math.max(1, total), parts = [];
  let x = 0, row = 0;
  for (const segment of segments) {
    let done = 0;
    const wanted = Math.max(3, segment.bytes * scale), stretch = wanted / segment.bytes;
    if (width - x < 8 && x > 0) { x = 0; row++; }
    while (done < segment.bytes) {
      const length = Math.min(width - x, (segment.bytes - done) * stretch), bytes = Math.min(segment.bytes - done, length / stretch);
      const ends = segment.bytes - done - bytes < 1;
      parts.push({segment, x, row, length, from: done, bytes: ends ? segment.bytes - done : bytes, first: done === 0, last: ends});
      done = ends ? segment.bytes : done + bytes;
      x += length + (ends ? MAP.space : 0);
      if (x >= width - 1) { x = 0; row++; }
    }
  }
  return {parts, rows: row + (x > 0 ? 1 : 0)};
}

function hatch(g) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 12;
  const t = tile.getContext('2d');
  t.fillStyle = theme.free;
  t.fillRect(0, 0, 12, 12);
  t.strokeStyle = theme.hatch;
  t.lineWidth = 1.2;
  for (let i = -12; i <= 12; i += 6) {
    t.beginPath();
    t.moveTo(i, 12);
    t.lineTo(i + 12, 0);
    t.stroke();
  }
  return g.createPattern(tile, 'repeat');
}

function drawPart(g, part, pattern) {
  const y = part.row * (MAP.row + MAP.gap) + 2, scale = part.length / part.bytes, b = s.blocks, segment = part.segment;
  g.fillStyle = pattern;
  g.fillRect(part.x, y, part.length, MAP.row);
  for (const block of segment.blocks) {
    const begin = b.address[block] - segment.address - part.from, end = begin + b.taken[block];
    if (end <= 0 || begin >= part.bytes) continue;
    const x0 = part.x + Math.max(0, begin) * scale, x1 = part.x + Math.min(part.bytes, end) * scale;
    g.fillStyle = colour(grouping.ofSite[b.site[block]]);
    g.fillRect(x0, y, Math.max(.6, x1 - x0 - (x1 - x0 > 4 ? .7 : 0)), MAP.row);
  }
  g.strokeStyle = segment.pinned ? theme.warn : theme.faint;
  g.lineWidth = segment.pinned ? 2 : 1;
  g.beginPath();
  const right = part.x + part.length;
  g.moveTo(part.x, y);
  g.lineTo(right, y);
  if (part.last) g.lineTo(right, y + MAP.row);
  else g.moveTo(right, y + MAP.row);
  g.lineTo(part.x, y + MAP.row);
  if (part.first) g.lineTo(part.x, y - (segment.pinned ? 1 : .5));
  g.stroke();
}

function drawMap() {
  const width = $('map').clientWidth || 600, segments = segmentsAt(chosen), order = $('map-order').value;
  if (order !== 'address') segments.sort((a, b) => b[order] - a[order] || a.address - b.address);
  const {parts, rows} = layMap(segments, width - 4);
  const height = Math.max(40, rows * (MAP.row + MAP.gap) + 2);
  for (const id of ['map', 'map-over']) $(id).style.height = height + 'px';
  const {g} = prepare($('map'), height);
  prepare($('map-over'), height);
  g.clearRect(0, 0, width, height);
  g.translate(2, 0);
  const pattern = hatch(g);
  for (const part of parts) drawPart(g, part, pattern);
  placed = {segments, parts};
  const live = segments.reduce((sum, segment) => sum + segment.live, 0);
  const reserved = segments.reduce((sum, segment) => sum + segment.bytes, 0);
  const pinned = segments.filter(segment => segment.pinned), empty = segments.filter(segment => segment.live === 0);
  const hole = segments.reduce((most, segment) => Math.max(most, segment.hole), 0);
  const words = [element('b', {text: instantText(chosen)}), ` · ${count(segments.length)} segment${segments.length === 1 ? '' : 's'}, ${size(reserved)} reserved, ${size(live)} live, largest free stretch ${size(hole)}`];
  if (pinned.length) words.push(` · ${count(pinned.length)} pinned with ${size(pinned.reduce((sum, segment) => sum + segment.free, 0))} free in them`);
  if (empty.length && segments.length > 1) words.push(` · ${count(empty.length)} wholly free (${size(empty.reduce((sum, segment) => sum + segment.bytes, 0))})`);
  if (!s.complete) words.push(` · blocks under ${size(s.raw.smallest_block)} are not drawn`);
  $('instant-at').replaceChildren(...words);
}

/* What lies at a place of the map: {segment, block or -1, begin, bytes}. */
function underMap(event) {
  const area = $('map').getBoundingClientRect(), x = event.clientX - area.left - 2, y = event.clientY - area.top - 2;
  const row = Math.floor(y / (MAP.row + MAP.gap));
  if (!placed || y % (MAP.row + MAP.gap) > MAP.row) return null;
  const part = placed.parts.find(p => p.row === row && x >= p.x && x <= p.x + p.length);
  if (!part) return null;
  const address = part.segment.address + part.from + (x - part.x) / part.length * part.bytes, b = s.blocks;
  let begin = part.segment.address;
  for (const block of part.segment.blocks) {
    if (address < b.address[block]) return {segment: part.segment, block: -1, begin, bytes: b.address[block] - begin};
    begin = Math.max(begin, b.address[block] + b.taken[block]);
    if (address < begin) return {segment: part.segment, block, begin: b.address[block], bytes: b.taken[block]};
  }
  return {segment: part.segment, block: -1, begin, bytes: part.segment.address + part.segment.bytes - begin};
}

/* The block that keeps most of a segment. */
function holder(segment) {
  return segment.blocks.reduce((most, block) => most < 0 || s.blocks.taken[block] > s.blocks.taken[most] ? block : most, -1);
}

function segmentStory(segment) {
  const text = `segment 0x${segment.address.toString(16)}: ${size(segment.bytes)}, ${share(segment.live, segment.bytes) || '0 %'} live, ${count(segment.blocks.length)} block${segment.blocks.length === 1 ? '' : 's'}, queue ${segment.queue}, pool ${segment.pool}${segment.expandable ? ', expandable' : ''}`;
  const lines = [element('div', {class: 'soft', text})];
  if (segment.pinned) lines.push(element('div', {text: `pinned by ${shorten(s.sites[s.blocks.site[holder(segment)]].label)}`}));
  return lines;
}

function listenToMap() {
  const map = $('map');
  map.addEventListener('pointermove', event => {
    const under = underMap(event), {g, width, height} = prepare($('map-over'), map.clientHeight);
    g.clearRect(0, 0, width, height);
    if (!under) return hideTip();
    g.translate(2, 0);
    g.strokeStyle = theme.ink;
    g.lineWidth = 2;
    for (const part of placed.parts) {
      if (part.segment !== under.segment) continue;
      const scale = part.length / part.bytes, from = under.begin - part.segment.address - part.from;
      const x0 = Math.max(0, from * scale), x1 = Math.min(part.length, (from + under.bytes) * scale);
      if (x1 > x0) g.strokeRect(part.x + x0, part.row * (MAP.row + MAP.gap) + 2, Math.max(2, x1 - x0), MAP.row);
    }
    if (under.block >= 0) showTip(event, ...blockStory(under.block), ...segmentStory(under.segment));
    else showTip(event, element('b', {text: 'free: ' + size(under.bytes)}), ...segmentStory(under.segment));
  });
  map.addEventListener('pointerleave', () => {
    const {g, width, height} = prepare($('map-over'), map.clientHeight);
    g.clearRect(0, 0, width, height);
    hideTip();
  });
  map.addEventListener('click', event => {
    const under = underMap(event);
    if (!under) return;
    onlySegment = under.segment;
    showTab(TABS.find(t => t.id === 'blocks'));
  });
}

/* ---- lists ----------------------------------------------------------------------------------------- */

const ROWS = 30;

const number = (title, value, text = size) => ({title, value, text, number: true});
const whoOfSite = site => ({
  title: 'who', value: row => site(row).label, who: true,
  dot: row => grouping.ofSite[site(row).index], site,
});
const sharing = (title, value, whole) => ({
  title, value, number: true, text: bytes => share(bytes, whole()), bar: bytes => whole() > 0 ? bytes / whole() : 0,
});

const TABS = [
  {id: 'peak', title: 'At the peak', rows: () => s.sites.filter(site => site.peak > 0), sort: 0, columns: [
    number('bytes', site => site.peak), sharing('share', site => site.peak, () => s.raw.peak_bytes),
    number('blocks', site => site.peakCount, count), number('own maximum', site => site.largest), whoOfSite(site => site)]},
  {id: 'end', title: 'Live at the end', rows: () => s.sites.filter(site => site.end > 0), sort: 0, columns: [
    number('bytes', site => site.end), sharing('share', site => site.end, () => s.raw.end_bytes),
    number('blocks', site => site.endCount, count), number('at the peak', site => site.peak), whoOfSite(site => site)]},
  {id: 'sites', title: 'All sites', rows: () => s.sites, sort: 0, columns: [
    number('own maximum', site => site.largest), number('allocated in all', site => site.total),
    number('times', site => site.times, count), number('mean block', site => site.times ? site.total / site.times : 0),
    number('at the peak', site => site.peak), number('at the end', site => site.end), whoOfSite(site => site)]},
  {id: 'blocks', title: 'Blocks at the instant', instant: true, sort: 0, columns: [
    number('bytes', i => s.blocks.taken[i]), number('born at', i => s.blocks.birth[i], count),
    number('dies at', i => s.blocks.death[i], death => death < s.n ? count(death) : 'never'),
    number('address', i => s.blocks.address[i], address => '0x' + address.toString(16)),
    whoOfSite(i => s.sites[s.blocks.site[i]])],
    rows: () => onlySegment ? segmentsAt(chosen).filter(x => x.address === onlySegment.address).flatMap(x => x.blocks) : liveAt(s, chosen)},
  {id: 'segments', title: 'Segments at the instant', instant: true, sort: 1, rows: () => segmentsAt(chosen), columns: [
    number('bytes', x => x.bytes), number('free', x => x.free),
    {title: 'live', value: x => x.bytes ? x.live / x.bytes : 0, number: true, text: part => (100 * part).toFixed(0) + ' %', bar: part => part},
    number('largest free', x => x.hole), number('blocks', x => x.blocks.length, count),
    number('queue', x => x.queue, String), number('pool', x => x.pool, String),
    number('address', x => x.address, address => '0x' + address.toString(16)),
    {title: 'largest block in it', value: x => x.blocks.length ? s.sites[s.blocks.site[holder(x)]].label : '', who: true,
      site: x => x.blocks.length ? s.sites[s.blocks.site[holder(x)]] : null, dot: x => x.blocks.length ? grouping.ofSite[s.blocks.site[holder(x)]] : -1}]},
  {id: 'failures', title: 'Failed requests', rows: () => s.raw.failures, sort: 0, up: true, columns: [
    number('event', f => f.event, count), number('asked', f => f.asked), number('device free', f => f.free),
    number('reserved then', f => reservedAt(s, f.event)), {title: 'who', value: f => f.who, who: true}]},
];

let tab = TABS[0], sortBy = 0, sortUp = false, shown = ROWS, onlySegment = null;

function showTab(wanted) {
  tab = wanted;
  sortBy = tab.sort;
  sortUp = !!tab.up;
  shown = ROWS;
  for (const button of $('tabs').children) button.setAttribute('aria-selected', button.dataset.tab === tab.id);
  redraw('table');
}

function makeTabs() {
  $('tabs').replaceChildren(...TABS.filter(t => t.id !== 'failures' || s.raw.failures.length).map(t =>
    element('button', {type: 'button', role: 'tab', 'data-tab': t.id, text: t.title, onclick: () => { onlySegment = null; showTab(t); }})));
}

function compare(column) {
  return (a, b) => {
    const x = column.value(a), y = column.value(b);
    return (typeof x === 'number' ? x - y : String(x).localeCompare(String(y))) * (sortUp ? 1 : -1);
  };
}

function whoCell(column, row) {
  const site = column.site ? column.site(row) : null, cell = element('td', {class: 'who'});
  if (column.dot && column.dot(row) >= 0) {
    const dot = element('span', {class: 'dot'});
    dot.style.background = colour(column.dot(row));
    cell.append(dot);
  }
  cell.append(shorten(column.value(row)));
  if (!site) return cell;
  const inner = site.stack.length ? s.frames[site.stack[0]] : '', call = inner.replace(/\s+/, ' ');
  const more = [inner && call !== site.label ? 'in ' + shorten(call) : '', site.shape.length ? `[${site.shape.join(', ')}] ${site.dtype}` : '', site.role, site.stack.length ? site.name : site.made ? 'by ' + site.made : '',
    site.kept.length ? 'kept for ' + site.kept[0] : ''].filter(Boolean).join(' · ');
  if (more) cell.append(' ', element('small', {text: more}));
  return cell;
}

function makeCell(column, row) {
  if (column.who) return whoCell(column, row);
  const value = column.value(row), cell = element('td', {class: column.number ? 'number' : ''});
  if (column.bar) {
    const bar = element('span', {class: 'share'});
    bar.style.width = Math.round(60 * Math.min(1, column.bar(value))) + 'px';
    cell.append(bar);
  }
  cell.append(column.text(value));
  return cell;
}

function makeRow(row) {
  const columns = tab.columns, who = columns.find(column => column.site), site = who ? who.site(row) : null;
  const made = element('tr', {class: 'main'}, ...columns.map(column => makeCell(column, row)));
  if (!site || !(site.stack.length || site.kept.length)) return made;
  made.classList.add('opens');
  made.title = 'click for the call stack';
  made.addEventListener('click', () => {
    if (made.nextSibling && made.nextSibling.className === 'more') return made.nextSibling.remove();
    const lines = site.stack.length ? site.stack.map(frame => s.frames[frame]) : site.kept.map(kept => 'kept for ' + kept);
    made.after(element('tr', {class: 'more'}, element('td', {colspan: columns.length}, element('ol', {}, ...lines.map(text => element('li', {text}))))));
  });
  return made;
}

function drawTable() {
  const wanted = $('filter').value.trim().toLowerCase(), columns = tab.columns;
  let rows = tab.rows().slice();
  const who = columns.find(column => column.who);
  if (wanted) rows = rows.filter(row => (who.value(row) + ' ' + (who.site && who.site(row) ? `${who.site(row).role} ${who.site(row).name} ${who.site(row).layer}` : '')).toLowerCase().includes(wanted));
  rows.sort(compare(columns[sortBy]));
  $('table').tHead.replaceChildren(element('tr', {}, ...columns.map((column, i) =>
    element('th', {class: column.number ? 'number' : '', scope: 'col', 'aria-sort': i === sortBy ? (sortUp ? 'ascending' : 'descending') : undefined},
      element('button', {type: 'button', text: column.title, onclick: () => sortTable(i)})))));
  $('table').tBodies[0].replaceChildren(...rows.slice(0, shown).map(makeRow));
  const bytes = columns[0].text === size ? rows.reduce((sum, row) => sum + columns[0].value(row), 0) : 0;
  $('table-count').textContent = (rows.length > shown ? `${count(shown)} of ${count(rows.length)} rows` : `${count(rows.length)} row${rows.length === 1 ? '' : 's'}`)
    + (bytes && tab.id !== 'sites' ? `, ${size(bytes)} in all` : '') + (tab.instant ? ` · ${instantText(chosen)}` : '');
  $('table-more').hidden = rows.length <= shown;
  $('segment-filter').hidden = !(tab.id === 'blocks' && onlySegment);
  if (onlySegment) $('segment-filter').textContent = `only segment 0x${onlySegment.address.toString(16)} ×`;
}

function sortTable(column) {
  sortUp = column === sortBy ? !sortUp : !tab.columns[column].number;
  sortBy = column;
  redraw('table');
}

/* ---- the summary ------------------------------------------------------------------------------------- */

function makeSummary() {
  const raw = s.raw, unused = raw.reserved_at_peak_bytes - raw.peak_bytes;
  const tiles = [['Peak, live', size(raw.peak_bytes)], ['Reserved at most', size(raw.reserved_peak_bytes)],
    ['Unused at the peak', raw.peak_event < 0 || unused < 0 ? '–' : size(unused), share(unused, raw.reserved_at_peak_bytes)],
    ['Live at the end', size(raw.end_bytes)], ['Events', count(raw.event_count)]];
  if (raw.timed && s.n > 1) tiles.push(['Recorded', duration(s.times.of(s.n - 1))]);
  if (raw.oom_count) tiles.push(['Failed requests', count(raw.oom_count), '', 'bad']);
  $('tiles').replaceChildren(...tiles.map(([title, value, small, mood]) =>
    element('div', {class: mood}, element('dt', {text: title}), element('dd', {}, value, small ? element('small', {text: ' ' + small}) : null))));
  $('story').replaceChildren(...raw.story.map(text => element('li', {text})));
  const about = [raw.name];
  if (raw.start_ms > 1e12) about.push(new Date(raw.start_ms).toISOString().replace('T', ' ').slice(0, 19) + ' UTC');
  if (raw.settings) about.push(raw.settings);
  $('about').textContent = about.filter(Boolean).join(' · ');
}

function showGrouping(index) {
  grouping = s.groupings[index];
  lit = -1;
  makeLegend();
  drawLegend(chosen);
  redraw('chart', 'map', 'table');
}

function showSource(index) {
  sources[index] = sources[index] || readSource(data.sources[index]);
  s = sources[index];
  data.sources[index].blocks = ''; /* read by now; frees the text */
  hovered = pointer = onlySegment = null;
  overviewKey = '';
  grouping = s.groupings[0];
  chosen = s.start;
  view = wholeView();
  $('slider').max = Math.max(0, s.n - 1);
  $('grouping').replaceChildren(...s.groupings.map((g, i) => element('option', {value: i, text: g.title})));
  document.querySelector('[data-instant=failure]').hidden = s.raw.failures.length === 0;
  $('axis').lastElementChild.textContent = s.raw.timed ? 'time' : 'operations';
  makeSummary();
  makeTabs();
  showTab(TABS[0]);
  showGrouping(0);
  choose(chosen);
}

function setAxis(name) {
  const [from, to] = [eventAt(view[0]), eventAt(view[1])], all = view[0] <= wholeView()[0] && view[1] >= wholeView()[1];
  axis = name;
  for (const button of $('axis').children) button.setAttribute('aria-pressed', button.dataset.axis === name);
  if (all) setView(...wholeView());
  else setView(place(from), place(to + 1));
}

function repaint() {
  readTheme();
  makeLegend();
  drawLegend(chosen);
  for (const part in dirty) dirty[part] = true;
  drawDirty();
}

function listen() {
  listenToChart();
  listenToMap();
  $('source').addEventListener('change', event => showSource(+event.target.value));
  $('grouping').addEventListener('change', event => showGrouping(+event.target.value));
  for (const button of $('axis').children) button.addEventListener('click', () => setAxis(button.dataset.axis));
  $('show-reserved').addEventListener('change', () => redraw('chart'));
  $('zoom-in').addEventListener('click', () => zoom(.5, place(chosen)));
  $('zoom-out').addEventListener('click', () => zoom(2, place(chosen)));
  $('zoom-all').addEventListener('click', () => setView(...wholeView()));
  $('zoom-peak').addEventListener('click', zoomToPeak);
  $('step-back').addEventListener('click', () => choose(chosen - 1));
  $('step-on').addEventListener('click', () => choose(chosen + 1));
  $('slider').addEventListener('input', event => choose(+event.target.value));
  for (const button of $('instants').children)
    button.addEventListener('click', () => choose({peak: s.start, end: s.n - 1, failure: s.raw.failures.length ? s.raw.failures[0].event : 0}[button.dataset.instant]));
  $('map-order').addEventListener('change', () => redraw('map'));
  $('filter').addEventListener('input', () => { shown = ROWS; redraw('table'); });
  $('table-more').addEventListener('click', () => { shown += 500; redraw('table'); });
  $('segment-filter').addEventListener('click', () => { onlySegment = null; redraw('table'); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
  addEventListener('beforeprint', repaint);
  addEventListener('afterprint', repaint);
  new ResizeObserver(() => redraw('chart', 'map')).observe($('chart-stage'));
}

readTheme();
document.title = data.title + ' · memory';
$('title').textContent = data.title;
$('footer').textContent = `Written by ${data.program}. Sizes are binary: 1 MiB is 1,048,576 bytes. A column of the picture shows the instant in it at which most was live; the pale line is the least.`;
if (data.sources.length > 1) {
  $('source').replaceChildren(...data.sources.map((raw, i) => element('option', {value: i, text: raw.name || 'source ' + (i + 1)})));
  $('source-choice').hidden = false;
}
listen();
if (data.sources.length) showSource(0);

})();
