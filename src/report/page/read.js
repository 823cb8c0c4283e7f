/* SPDX-License-Identifier: MIT */
/*
 * The page at work, first part: data. They come from one JSON text, written by page_source.c; its
 * long lists are packed numbers in base64. A *source* (a GPU, a rank, a plan) is read when it is
 * first shown. The parts follow each other inside one function: read, chart, map, lists, page.
 *
 * Time is counted in events: the state "at event e" is what holds right after it.
 */

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
    letGo: new Int32Array(n), asked: new Float64Array(n), site: new Int32Array(n), address: new Float64Array(n),
  };
  let birth = 0, address = 0;
  for (let i = 0; i < n; i++) {
    birth += r.next();
    const life = r.next();
    blocks.birth[i] = birth;
    blocks.death[i] = life === 0 ? raw.event_count : birth + life;
    const held = r.next();
    blocks.letGo[i] = held === 0 ? blocks.death[i] : birth + held;
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
