// Elements, numbers and words. Text is always set as text, so nothing that a server holds can become markup.

export function h(tag, props = {}, ...children) {
  const svg = ['svg', 'path', 'line', 'text', 'g', 'rect', 'circle', 'title'].includes(tag) && props.svg !== false;
  const element = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false || key === 'svg') continue;
    if (key === 'class') element.setAttribute('class', value);
    else if (key === 'style') for (const [k, v] of Object.entries(value)) element.style.setProperty(k, v);
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

// replaceChildren that takes what h takes.
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
}

// fill for a page that is refreshed: what has the focus, is open or scrolled stays so.
export function redraw(root, ...children) {
  const stops = () => [...root.querySelectorAll('a, button, input, summary, [tabindex]')];
  const opened = () => [...root.querySelectorAll('details')];
  const scrolled = () => [...root.querySelectorAll('.scroll, .lineage, pre')];
  const focus = stops().indexOf(document.activeElement), open = opened().map((d) => d.open), scroll = scrolled().map((s) => [s.scrollLeft, s.scrollTop]);
  fill(root, ...children);
  opened().forEach((d, i) => { d.open = open[i] ?? false; });
  scrolled().forEach((s, i) => { [s.scrollLeft, s.scrollTop] = scroll[i] ?? [0, 0]; });
  if (focus >= 0) stops()[focus]?.focus({ preventScroll: true });
}

export const count = (n) => Number(n).toLocaleString('en-US');
export const plural = (n, word) => `${count(n)} ${word}${Number(n) === 1 ? '' : 's'}`;
export function percent(x, digits = 1) {
  if (x === null || x === undefined || Number.isNaN(x)) return '–';
  if (x === 1) return '100 %';
  // Never round up to what was not reached, nor down to nothing.
  const text = Math.min(x * 100, 100 - 10 ** -digits).toFixed(digits);
  return x > 0 && Number(text) === 0 ? `< ${(10 ** -digits).toFixed(digits)} %` : `${text} %`;
}
export function bytes(n) {
  if (n === null || n === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; ++i; }
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds === 0) return '0';
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 2 : 1)} ms`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}
export function when(seconds) {
  if (!seconds) return '–';
  const text = new Date(seconds * 1000).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
  return h('time', { datetime: new Date(seconds * 1000).toISOString(), title: new Date(seconds * 1000).toISOString() }, text);
}
export const number = (x, digits = 4) => (x === null || x === undefined ? '–' : Number(x).toFixed(digits));
export const idText = (id) => id.name ?? `#${id.number}`;

// How old a generation is beside the newest decides its tone: the newest is the strongest.
export const tone = (generation, newest) => `g${Math.min(5, Math.max(0, newest - generation))}`;

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;
export const badge = (text, kind = '') => h('span', { class: `badge ${kind}` }, text);
export const facts = (pairs) =>
  h('dl', { class: 'facts' }, pairs.filter((p) => p).map(([k, v]) => [h('dt', {}, k), h('dd', {}, v ?? '–')]));
export const card = (width, title, hint, ...children) =>
  h('section', { class: `card ${width}` }, title && h('header', {}, h('h2', {}, title), hint && h('span', { class: 'hint' }, hint)), children);

export function table(columns, rows, caption) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'visually-hidden' }, caption),
      h('thead', {}, h('tr', {}, columns.map(([title, kind]) => h('th', { scope: 'col', class: kind }, title)))),
      h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) => h('td', { class: columns[i][1] }, cell)))))));
}

export function empty(title, text, command, heading = 'h2') {
  return h('div', { class: 'empty' }, h(heading, {}, title), h('p', {}, text), command && h('pre', {}, command));
}

export function toast(text) {
  const element = h('div', { class: 'toast' }, text);
  document.getElementById('toasts').append(element);
  setTimeout(() => element.remove(), 6000);
}

const backfillTone = { running: 'accent', done: 'good', failed: 'bad', paused: 'warn', stopped: 'warn', ordering: 'accent' };
export const backfillBadge = (backfill) => badge(backfill.state, backfillTone[backfill.state] ?? '');
const generationTone = { active: 'accent', validated: 'good', retired: '' };
export const generationBadge = (state) => badge(state === 'active' ? 'serving' : state, generationTone[state] ?? '');

// Share of the items by generation, oldest first.
export function shareBar(items, newest, big) {
  const total = items.reduce((sum, one) => sum + one.items, 0);
  const text = items.map((one) => `generation ${one.generation}: ${percent(one.items / (total || 1))}`).join(', ');
  return h('div', { class: `share${big ? ' big' : ''}`, role: 'img', 'aria-label': text || 'no items', title: text },
    items.map((one) => h('span', { class: tone(one.generation, newest), style: { flex: String(one.items) } })));
}

// Hits that live searches found of those that exact ones did, lately. null: too few to say.
export function recentRecall(live, keep = () => true) {
  let expected = 0, found = 0;
  for (const one of live?.recall ?? []) {
    if (!keep(one)) continue;
    expected += one.recent_expected;
    found += one.recent_found;
  }
  return expected >= 5 ? found / expected : null;
}
export const recallBadge = (recall) =>
  recall === null ? h('span', { class: 'quietly' }, 'no samples') : badge(percent(recall), recall >= 0.95 ? 'good' : recall >= 0.9 ? 'warn' : 'bad');
