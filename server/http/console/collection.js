// One collection: its line of generations, what reaches what, and its backfill.
import { read } from './api.js';
import { lineChart } from './charts.js';
import { activate, endCanary, pauseBackfill, rollback, startBackfill } from './actions.js';
import { backfillBadge, badge, bytes, card, count, duration, empty, generationBadge, h, link, number, percent, plural, recallBadge, recentRecall, shareBar, table, tone, when, redraw } from './dom.js';

export const every = 3000;
// A key that only reads does not see the audit log, and needs no way back.
function forbidden(error) {
  if (error.code !== 'PERMISSION_DENIED') throw error;
  return { entries: [] };
}

let shownAs = '', auditOf = '', audit = [];

export function head(name, here, actions, sub) {
  const tab = (title, ...parts) => h('a', { href: link('collections', name, ...parts), 'aria-current': here === title ? 'page' : null }, title);
  return [
    h('nav', { class: 'crumbs', 'aria-label': 'Way here' }, h('a', { href: '#/' }, 'Overview'), h('span', { 'aria-hidden': 'true' }, '/'), h('span', {}, name)),
    h('div', { class: 'head' }, h('div', {}, h('h1', {}, name), sub && h('p', { class: 'sub' }, sub)), actions && h('div', { class: 'actions' }, actions)),
    h('nav', { class: 'tabs', 'aria-label': `Pages of ${name}` }, tab('Generations'), tab('Search', 'search'), tab('Jobs', 'jobs'), tab('Audit', 'audit')),
  ];
}

export async function update(root, name) {
  const page = await read('collections', name);
  // The server reads its whole log for this: only when another generation has been activated.
  const activations = JSON.stringify([name, page.active_generation, page.generations.map((g) => g.activated)]);
  if (activations !== auditOf) {
    audit = page.active_generation ? (await read('collections', name, 'audit').catch(forbidden)).entries : [];
    auditOf = activations;
  }
  // Drawn anew only when something changed, so that focus and scrolling stay where they are.
  const now = JSON.stringify([page, audit.length]);
  if (now === shownAs && root.hasChildNodes()) return;
  shownAs = now;
  const newest = page.generations.length;
  const geometry = page.metric === 'lorentz' ? `Lorentz, curvature −${page.curvature}` : page.metric.replace('_', ' ');
  const before = page.generations.find((g) => g.generation === previousOf(audit, page));
  redraw(root,
    ...head(page.name, 'Generations', !page.read_only && page.active_generation > 0 && audit.length > 1 &&
      h('button', { type: 'button', id: 'rollback', onclick: () => rollback(page, before) }, 'Roll back'),
    `${geometry} · ${plural(page.items, 'item')} · ${plural(page.segments.length, 'segment')} · ${bytes(page.segments.reduce((s, x) => s + x.bytes, 0))}${page.aliases.length ? ` · also ${page.aliases.join(', ')}` : ''}`),
    ...page.model_alarms.map((alarm) => h('p', { class: 'callout bad', role: 'alert' }, h('strong', {}, `Generation ${alarm.generation}: ${alarm.of} may come from another model. `), `Odd: ${alarm.alarms.join(', ')}; ${alarm.foreign} odd vectors so far. The server's log says more.`)),
    page.index_error && h('p', { class: 'callout bad', role: 'alert' }, h('strong', {}, 'Builds of the index fail and are tried again. '), page.index_error),
    scanned(page),
    h('div', { class: 'grid' },
      generations(page, newest),
      page.canary && canary(page),
      share(page, newest),
      matrix(page),
      backfill(page),
      recall(page)));
}

// Segments whose graph or lists find too little at any breadth.
function scanned(page) {
  const scans = page.segments.filter((s) => s.default_recall !== null && s.default_breadth === 0);
  return scans.length > 0 && h('p', { class: 'callout', role: 'status' },
    h('strong', {}, `Searches scan ${plural(scans.length, 'segment')}. `),
    `Their graph or lists find too few of the nearest rows at any breadth: ${plural(scans.reduce((sum, s) => sum + s.rows, 0), 'row')}.`);
}

// The generation that a rollback would lead to, as far as the log tells: a rollback undoes the activation before it, and
// passes over what was retired.
function previousOf(audit, page) {
  const stack = [];
  for (const entry of [...audit].reverse()) {
    if (entry.retired || entry.canary_share !== null) continue;  // change nothing about who serves
    if (entry.rollback) {
      while (stack.length && stack[stack.length - 1] !== entry.generation) stack.pop();
      stack.pop();
    } else if (entry.previous_generation && entry.previous_generation !== entry.generation) stack.push(entry.previous_generation);
  }
  const left = stack.filter((g) => page.generations.find((one) => one.generation === g)?.state !== 'retired');
  while (left.length && left[left.length - 1] === page.active_generation) left.pop();
  return left[left.length - 1] ?? 0;
}

function generations(page, newest) {
  if (!newest) {
    const space = page.metric === 'lorentz' ? ` --curvature ${page.curvature} --clip-radius 1` : '';
    return card('w12', 'Generations', null, empty('No generation yet', 'A generation is one version of the embedding model. Register the first one, with the numbers of your model:',
      `lightcone generation register ${page.name} --dimension 512${space} --activate`));
  }
  return card('w12', 'Generations', 'one version of the model each, oldest first', h('ol', { class: 'lineage', tabindex: '0', 'aria-label': 'Line of generations' },
    page.generations.map((g) => h('li', { class: g.parent ? null : 'gap' }, h('div', { class: `node${g.state === 'active' ? ' active' : ''}` },
      h('div', { class: 'row' }, h('a', { href: link('collections', page.name, 'generations', String(g.generation)) }, h('span', { class: `key ${tone(g.generation, newest)}` }), ` Generation ${g.generation}`), generationBadge(g.state)),
      h('p', { class: 'meta' }, `${g.method || 'external'} · ${g.dimension} d${g.parent ? ` · after ${g.parent}` : ''}`),
      h('p', { class: 'meta' }, `${plural(itemsOf(page, g.generation), 'item')}`),
      !page.read_only && !['active', 'retired', 'draft'].includes(g.state) && h('p', { class: 'meta' }, h('button', { type: 'button', class: 'small', id: `activate-${g.generation}`, onclick: () => activate(page, g) }, 'Activate', h('span', { class: 'visually-hidden' }, ` generation ${g.generation}`))))))));
}

// Both sides of a canary.
function canary(page) {
  const c = page.canary;
  const row = (name, side) => [name, h('a', { href: link('collections', page.name, 'generations', String(side.generation)) }, `generation ${side.generation}`),
    count(side.searches), count(side.failures), duration(side.p50), duration(side.p99), number(side.nearest_distance), number(side.nearest_uncertainty), recallBadge(side.live_recall)];
  return card('w12', 'Canary', h('span', { class: 'actions' }, `${percent(c.share)} of the searches that give a key, since `, when(c.began),
    !page.read_only && h('button', { type: 'button', class: 'small', id: 'canary-end', onclick: () => endCanary(page) }, 'End it')),
  table([['Side'], ['Serves by'], ['Searches', 'n'], ['Failed', 'n'], ['Median', 'n'], ['p99', 'n'], ['Nearest hit', 'n'], ['Uncertainty', 'n'], ['Live recall', 'n']],
    [row('canary', c.canary), row('active', c.active)], 'Canary and active generation'),
  c.unroutable > 0 && h('p', { class: 'quietly' }, `${plural(c.unroutable, 'search').replace('searchs', 'searches')} more were its share, and had a vector of the active generation alone.`));
}

const itemsOf = (page, generation) => page.items_by_generation.find((one) => one.generation === generation)?.items ?? 0;

function share(page, newest) {
  if (!page.items) return card('w5', 'Items by generation', null, empty('No items yet', 'Import some:', `lightcone import ${page.name} items.jsonl`));
  return card('w5', 'Items by generation', `${count(page.items)} in all`, shareBar(page.items_by_generation, newest, true),
    h('ul', { class: 'legend' }, page.items_by_generation.map((one) => h('li', {}, h('span', { class: `key ${tone(one.generation, newest)}` }),
      `Generation ${one.generation}`, h('span', { class: 'quietly' }, `${percent(one.items / page.items)}, ${count(one.items)}`)))));
}

const ways = { own: 'its own', trained: 'trained to', query: 'query adapter', item: 'item adapter' };

function wayOf(page, query, item) {
  const has = (from, to) => page.adapters.some((a) => a.from === from && a.to === to);
  if (query === item) return 'own';
  if (has(query, item)) return 'query';
  if (has(item, query)) return 'item';
  return page.generations[query - 1].reach.includes(item) ? 'trained' : null;
}

// Which generation's queries may be compared with whose items, and how well that goes live.
function matrix(page) {
  if (!page.generations.length) return null;
  const numbers = page.generations.filter((g) => g.state !== 'retired').map((g) => g.generation);
  const cell = (query, item) => {
    const way = wayOf(page, query, item);
    const live = recentRecall(page.live, (one) => one.query_generation === query && one.item_generation === item);
    if (!way) return h('td', {}, h('div', { class: 'none' }, h('div', { class: 'v' }, '–'), h('div', { class: 'w' }, 'out of reach')));
    if (live === null) return h('td', {}, h('div', {}, h('div', { class: 'w' }, ways[way]), h('div', { class: 'w none' }, 'no samples')));
    const box = h('div', { class: 'on' }, h('div', { class: 'v' }, percent(live)), h('div', { class: 'w' }, ways[way]));
    box.style.setProperty('background', `rgba(var(--heat), ${0.08 + 0.36 * Math.max(0, (live - 0.5) / 0.5)})`);
    return h('td', {}, box);
  };
  return card('w7', 'Compatibility', 'live recall against exact search, where there are samples',
    h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Compatibility of generations' }, h('table', { class: 'heat' },
      h('caption', { class: 'visually-hidden' }, 'Rows: the generation of the query. Columns: that of the item.'),
      h('thead', {}, h('tr', {}, h('td', {}), numbers.map((n) => h('th', { scope: 'col' }, `items of ${n}`)))),
      h('tbody', {}, numbers.map((q) => h('tr', {}, h('th', { scope: 'row' }, `queries of ${q}`), numbers.map((i) => cell(q, i))))))));
}

function backfill(page) {
  const b = page.backfill;
  const total = b.items_done + b.items_left;
  const older = page.items_by_generation.some((one) => one.generation < page.active_generation);
  const button = page.read_only || !page.active_generation ? null
    : b.state === 'running' || b.state === 'ordering' ? h('button', { type: 'button', class: 'small', id: 'pause', onclick: () => pauseBackfill(page) }, 'Pause')
      : older ? h('button', { type: 'button', class: 'small', id: 'start', onclick: () => startBackfill(page) }, ['paused', 'failed'].includes(b.state) ? 'Resume' : 'Start') : null;
  if (b.state === 'none') {
    return card('w12', 'Backfill', null, older
      ? h('p', { class: 'quietly' }, 'Not started. Items of older generations are served as they are; embedding them anew is a matter of taste and time.')
      : h('p', { class: 'quietly' }, page.items ? 'Nothing to do: the serving generation has embedded every item.' : 'Nothing to do: there are no items.'), button && h('p', { class: 'actions' }, button));
  }
  const points = page.history.filter((p) => p.done + p.left > 0).map((p) => [p.time, p.done / (p.done + p.left)]);
  const recallLine = page.history.map((p) => [p.time, p.recall]);
  const lately = page.history.slice(-60);
  const rate = lately.length > 1 ? (lately[lately.length - 1].done - lately[0].done) / (lately[lately.length - 1].time - lately[0].time) : 0;
  return card('w12', 'Backfill', h('span', { class: 'actions' }, backfillBadge(b), button),
    h('p', {}, h('strong', {}, percent(total ? b.items_done / total : 1)), ` of ${plural(total, 'item')} embedded by generation ${b.generation} or a newer one`),
    h('div', { class: 'meter', role: 'progressbar', 'aria-label': 'Backfill', 'aria-valuemin': '0', 'aria-valuemax': '100', 'aria-valuenow': String(Math.floor(100 * (total ? b.items_done / total : 1))) },
      h('span', { style: { width: `${100 * (total ? b.items_done / total : 1)}%` } })),
    h('ul', { class: 'legend' }, h('li', {}, `${count(b.items_left)} left`), h('li', {}, `${count(b.items_leased)} leased`),
      b.state === 'running' && h('li', {}, rate > 0 ? `${rate >= 10 ? count(Math.round(rate)) : rate.toFixed(1)} a second, about ${duration(b.items_left / rate)} to go` : 'no item came back lately'),
      b.state === 'ordering' && h('li', {}, `${count(b.items_ordered)} put in order`), b.started && h('li', {}, 'since ', when(b.started))),
    b.error && h('p', { class: 'callout bad' }, b.error),
    points.length > 1 && lineChart([{ label: 'backfilled', points }, { label: 'live recall', points: recallLine }], { format: (v) => percent(v, 0), low: 0, high: 1, label: 'Backfill over time', area: true }));
}

function recall(page) {
  const rows = page.live.recall.map((one) => [
    `${one.query_generation} → ${one.item_generation}`, one.segment, one.filter, count(one.expected),
    one.recent_expected >= 5 ? recallBadge(one.recent_found / one.recent_expected) : '–', percent(one.found / one.expected)]);
  const drifts = page.live.spreads.filter((s) => s.drift !== null);
  return card('w12', 'Live searches', `${plural(page.live.samples, 'sampled search').replace('searchs', 'searches')}, repeated exactly`,
    rows.length ? table([['Query → item'], ['Segment'], ['Filter'], ['Exact hits', 'n'], ['Recall lately', 'n'], ['Since the start', 'n']], rows, 'Live recall')
      : h('p', { class: 'quietly' }, 'No samples yet. A share of the searches that are not exact is repeated in the background (recall.sample_share).'),
    page.live.spreads.length > 0 && h('details', { id: 'spreads' }, h('summary', {}, 'Distances and uncertainties of the hits'), table(
      [['Query → item'], ['Of'], ['Hits', 'n'], ['10 % below', 'n'], ['Median', 'n'], ['90 % below', 'n'], ['Drift', 'n']],
      page.live.spreads.map((s) => [`${s.query_generation} → ${s.item_generation}`, s.quantity, count(s.count), ...s.quantiles.map((q) => number(q)), s.drift === null ? '–' : number(s.drift, 2)]), 'Spread of the hits')),
    drifts.some((s) => s.drift > 0.5) && h('p', { class: 'quietly' }, 'A drift above 0.5: hits of that pair lie on another scale than those of the query generation’s own.'));
}

export function leave() { shownAs = ''; }
