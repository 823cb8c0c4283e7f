/* SPDX-License-Identifier: MIT */
/* Lists that sort: sites, blocks, segments, failed requests. A list is a row of TABS. */

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
