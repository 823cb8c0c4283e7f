/* SPDX-License-Identifier: MIT */
/* The summary, the choice of a source, and the start. */

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
