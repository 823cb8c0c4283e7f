/* SPDX-License-Identifier: MIT */
/* Segments at the chosen instant, the blocks in them, and what holds them. */

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
    segment.pinned = s.complete && segment.live > 0 && segment.free * 2 > segment.bytes && there.length > 1;
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
    g.globalAlpha = b.letGo[block] <= chosen ? .45 : 1;
    g.fillRect(x0, y, Math.max(.6, x1 - x0 - (x1 - x0 > 4 ? .7 : 0)), MAP.row);
  }
  g.globalAlpha = 1;
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
  const words = [element('b', {text: instantText(chosen)}), ` · ${count(segments.length)} segment${segments.length === 1 ? '' : 's'}, ${size(reserved)} reserved, ${size(live)} ${s.complete ? `live, largest free stretch ${size(hole)}` : 'in the blocks drawn'}`];
  if (pinned.length) words.push(` · ${count(pinned.length)} pinned with ${size(pinned.reduce((sum, segment) => sum + segment.free, 0))} free in them`);
  if (s.complete && empty.length && segments.length > 1) words.push(` · ${count(empty.length)} wholly free (${size(empty.reduce((sum, segment) => sum + segment.bytes, 0))})`);
  const waiting = segments.flatMap(segment => segment.blocks).filter(block => s.blocks.letGo[block] <= chosen);
  if (waiting.length) words.push(` · ${count(waiting.length)} let go and not yet free (${size(waiting.reduce((sum, block) => sum + s.blocks.taken[block], 0))})`);
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
  const text = `segment 0x${segment.address.toString(16)}: ${size(segment.bytes)}, ${share(segment.live, segment.bytes) || '0 %'} live, ${count(segment.blocks.length)} block${segment.blocks.length === 1 ? '' : 's'}${whereabouts(segment)}${segment.expandable ? ', expandable' : ''}`;
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
